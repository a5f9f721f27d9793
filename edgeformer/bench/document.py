"""The document of a run: held against schema.json and its own rounds, and written as a whole."""

import json
import os
from typing import Any, Dict

from edgeformer import strictjson as js
from edgeformer.bench import recompute, schema_check
from edgeformer.errors import BundleError, EdgeformerError
from edgeformer.wholefile import write_whole

FORMAT = 1
MOST_BYTES = 128 << 20  # read within seconds; a run of all presets has less than one million
SCHEMA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "schema.json")


def schema() -> Dict[str, Any]:
    """The JSON Schema of a document."""
    with open(SCHEMA, encoding="ascii") as file:
        found: Dict[str, Any] = json.load(file)
    return found


def read(path: str) -> Dict[str, Any]:
    """The document in a file that nobody vouches for: of the right form, its figures those of its
    own rounds."""
    return held(parsed(path), os.path.basename(path))


def held(document: Any, where: str) -> Dict[str, Any]:
    """The same of what was parsed already."""
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
    if isinstance(document, dict) and "format" not in document:
        raise EdgeformerError(
            f"{where} names no format: it is not what bench writes (a self test and a prediction "
            "are other documents); leave it out"
        )
    if isinstance(document, dict) and document.get("format") != FORMAT:
        raise EdgeformerError(
            f"{where} has format {js.shown(document.get('format'))}; this version of edgeformer "
            f"reads format {FORMAT}: measure again, or install the version that made it"
        )
    if isinstance(document, dict) and document.get("kind") == "profile":
        raise EdgeformerError(
            f"{where} is a profile: it tells where one bundle's time goes, and is compared with "
            "nothing; leave it out, or measure with bench -o FILE, without --profile"
        )
    root = schema()
    hold(document, root, root, where)


def hold(value: Any, rule: Dict[str, Any], root: Dict[str, Any], where: str) -> None:
    """Hold a value against a rule of a schema, whose definitions are in `root`."""
    if schema_check.fits(rule, root)(value):
        return
    for place, wrong in schema_check.errors(value, rule, root, ""):
        raise EdgeformerError(f"{where}: {place or 'the whole'} {wrong}")


def text_of(document: Dict[str, Any]) -> str:
    """One line of JSON, checked: no NaN, nothing that a reader would refuse."""
    check(document)
    return json.dumps(document, allow_nan=False)


def write(path: str, text: str) -> None:
    """Replace `path` as a whole, or leave it as it was."""
    write_whole(path, [text.encode("ascii"), b"\n"])


def _bytes(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            raw = b"" if size > MOST_BYTES else file.read(MOST_BYTES + 1)
    except OSError as error:
        raise EdgeformerError(f"{path} cannot be read: {error.strerror}") from None
    if max(size, len(raw)) > MOST_BYTES:
        raise EdgeformerError(
            f"{path} has {max(size, len(raw))} bytes, and a document at most {MOST_BYTES} "
            f"({MOST_BYTES >> 20} MiB); measure fewer rounds, tokens or bundles in one run"
        )
    return raw
