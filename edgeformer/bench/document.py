"""The document of a run: held against schema.json, written so that no half of one is left behind.

The check knows the part of JSON Schema that schema.json is written in, so that Python 3.6 on a
board checks what it writes without a package more. The tests hold it against `jsonschema`.
"""

import json
import math
import os
import re
import tempfile
from typing import Any, Dict, Iterator, Tuple

from edgeformer import strictjson as js
from edgeformer.bench import recompute
from edgeformer.errors import BundleError, EdgeformerError

FORMAT = 1
SCHEMA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "schema.json")
_TYPES = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
    "null": type(None),
}
_OTHERS = {"title", "description", "definitions", "$schema"}  # they check nothing
_OTHERS |= {"properties", "required", "additionalProperties", "items"}  # checked member by member


def schema() -> Dict[str, Any]:
    """The JSON Schema of a document."""
    with open(SCHEMA, encoding="ascii") as file:
        found: Dict[str, Any] = json.load(file)
    return found


def read(path: str) -> Dict[str, Any]:
    """The document in a file that nobody vouches for: of the right form, its figures those of its
    own rounds."""
    document, where = parsed(path), os.path.basename(path)
    check(document, where)
    recompute.hold(document, where)
    return dict(document)


def parsed(path: str) -> Any:
    """The strict JSON in a file that nobody vouches for."""
    try:
        return js.parse(_bytes(path), os.path.basename(path))
    except BundleError as error:
        raise EdgeformerError(
            str(error).replace("export the bundle again", "measure again, with bench -o FILE")
        ) from None


def check(document: Any, where: str = "the document") -> None:
    """EdgeformerError with the first place that is not what schema.json says."""
    if isinstance(document, dict) and document.get("format") != FORMAT:
        raise EdgeformerError(
            f"{where} has format {js.shown(document.get('format'))}; this version of edgeformer "
            f"reads format {FORMAT}: measure again, or install the version that made it"
        )
    root = schema()
    hold(document, root, root, where)


def hold(value: Any, rule: Dict[str, Any], root: Dict[str, Any], where: str) -> None:
    """Hold a value against a rule of a schema, whose definitions are in `root`."""
    for place, wrong in _errors(value, rule, root, ""):
        raise EdgeformerError(f"{where}: {place or 'the whole'} {wrong}")


def text_of(document: Dict[str, Any]) -> str:
    """One line of JSON, checked: no NaN, nothing that a reader would refuse."""
    check(document)
    return json.dumps(document, allow_nan=False)


def writable(path: str) -> None:
    """Refuse a path that could not be written, before anything is measured."""
    path = os.path.realpath(path)
    folder = os.path.dirname(path)
    if os.path.isdir(path):
        raise EdgeformerError(f"-o {path} is a directory; give a file, such as {path}/bench.json")
    if os.path.exists(path) and not os.path.isfile(path):
        raise EdgeformerError(f"-o {path} is no regular file; use --json for standard output")
    if not os.path.isdir(folder):
        raise EdgeformerError(f"-o {path}: there is no directory {folder}; make it first")
    try:
        handle, made = tempfile.mkstemp(prefix=".bench-", dir=folder)
        os.close(handle)
        os.unlink(made)
    except OSError as error:
        raise EdgeformerError(
            f"-o {path} cannot be written: {error.strerror}; choose another place"
        ) from None


def write(path: str, text: str) -> None:
    """Replace `path` as a whole, or leave it as it was."""
    path = os.path.realpath(path)
    folder = os.path.dirname(path)
    made = ""
    try:
        handle, made = tempfile.mkstemp(prefix=".bench-", dir=folder)
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.chmod(made, 0o644)
        os.replace(made, path)
    except OSError as error:
        if made and os.path.exists(made):
            os.unlink(made)
        raise EdgeformerError(f"{path} cannot be written: {error.strerror}") from None


def _bytes(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            raw = file.read(64 * js.MOST_BYTES + 1)
    except OSError as error:
        raise EdgeformerError(f"{path} cannot be read: {error.strerror}") from None
    if len(raw) > 64 * js.MOST_BYTES:
        raise EdgeformerError(f"{path} has more than {64 * js.MOST_BYTES} bytes")
    return raw


def _errors(value: Any, rule: Dict[str, Any], root: Any, at: str) -> Iterator[Tuple[str, str]]:
    """(place, what is wrong there), the outermost first."""
    for word, argument in rule.items():
        if word == "$ref":
            target = root["definitions"][argument.rpartition("/")[2]]
            yield from _errors(value, target, root, at)
        elif word == "anyOf":
            found = [list(_errors(value, choice, root, at)) for choice in argument]
            if all(found):  # the longest path is that of the choice that was meant
                yield max((errors[0] for errors in found), key=lambda error: len(error[0]))
        elif word in _CHECKS and not _CHECKS[word](value, argument):
            yield at, f"is {js.shown(value)}, but {word} is {json.dumps(argument)}"
            return
        elif word not in _CHECKS and word not in _OTHERS:
            raise AssertionError(f"schema.json uses {word}, which nothing here checks")
    if isinstance(value, dict):
        yield from _members(value, rule, root, at)
    elif isinstance(value, list) and "items" in rule:
        for index, item in enumerate(value):
            yield from _errors(item, rule["items"], root, f"{at}[{index}]")


def _members(
    value: Dict[str, Any], rule: Dict[str, Any], root: Any, at: str
) -> Iterator[Tuple[str, str]]:
    for key in rule.get("required", ()):
        if key not in value:
            yield at, f"lacks the key {js.shown(key)}"
    known = rule.get("properties", {})
    others = rule.get("additionalProperties", True)
    for key, item in value.items():
        place = f"{at}.{key}" if at else key
        if key in known:
            yield from _errors(item, known[key], root, place)
        elif others is False:
            yield at, f"has the unknown key {js.shown(key)}"
        elif others is not True:
            yield from _errors(item, others, root, place)


def _is(value: Any, names: Any) -> bool:
    for name in [names] if isinstance(names, str) else names:
        if isinstance(value, _TYPES[name]) and (name == "boolean" or not isinstance(value, bool)):
            return not isinstance(value, float) or math.isfinite(value)
    return False


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


_CHECKS = {
    "type": _is,
    "enum": lambda value, known: value in known,
    "const": lambda value, wanted: value == wanted,
    "pattern": lambda value, text: not isinstance(value, str) or bool(re.search(text, value)),
    "minimum": lambda value, least: not _number(value) or value >= least,
    "maximum": lambda value, most: not _number(value) or value <= most,
    "minItems": lambda value, least: not isinstance(value, list) or len(value) >= least,
    "maxItems": lambda value, most: not isinstance(value, list) or len(value) <= most,
}
