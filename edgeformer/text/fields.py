"""Read a tokenizer file: it comes from outside, so each field is checked before it is used."""

from typing import Any, Dict

from edgeformer import strictjson
from edgeformer.errors import EdgeformerError

MOST_IDS = 1 << 22  # far above any vocabulary; keeps a hostile id from filling the memory


def read_json_object(path: str) -> Dict[str, Any]:
    try:
        with open(path, "rb") as file:
            raw = file.read()
    except OSError as error:
        raise EdgeformerError(
            "tokenizer file %s cannot be read: %s" % (path, error.strerror)
        ) from None
    return strictjson.table(strictjson.parse(raw, path), path)


def refusal(
    path: str, reason: str, remedy: str = "get the file again from where the model came from"
) -> EdgeformerError:
    return EdgeformerError("tokenizer file %s cannot be used: %s; %s" % (path, reason, remedy))


def text_of(path: str, value: Any, what: str) -> str:
    """value, if it is a str that UTF-8 can hold."""
    if not isinstance(value, str):
        raise refusal(path, "%s is not a string" % what)
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise refusal(path, "%s holds half of a surrogate pair: %r" % (what, value)) from None
    return value


def token_id_of(path: str, value: Any, what: str) -> int:
    if type(value) is not int or not 0 <= value < MOST_IDS:
        raise refusal(
            path, "the id of %s is %.40r, not a number from 0 to 2^22 - 1" % (what, value)
        )
    return value
