"""engine.json, format 1: what a set of engines was made from, and how a backend must drive it.

A bundle's `engines/` holds one folder for each set, named by its key. Whoever builds engines
writes `engine.json` last, through `engine_json`, so that what stands there has passed the very
check that the backend applies. All keys are required:

    format       1
    key          the folder's name
    layout       "split": decode.plan for one token, prefill.plan for chunks
                 "shared": prefill.plan alone, with a range of tokens that begins at 1
    precision    what the builder was asked for: "fp32", "fp16" or "int8"
    cache_dtype  of past.* and new.*: "float32" or "float16"
    past_rows    the sizes that the cache may be given in, ascending: [capacity] or buckets; the
                 profile of P goes from the first to the last, and the last holds the capacity
    tensorrt     the release that built it, as `tensorrt.__version__` gives it
    device       {"name", "compute_capability": "5.3"}; both must be those of the GPU that loads it
    graphs       {file of the bundle: sha256} of all that went in: graphs and weights
    flags        {name: text} that changed the build: workspace, tactic sources, pinned layers ...
    engines      {"decode": ..., "prefill": ...}, each {"file", "bytes", "sha256", "tokens": [min,
                 max], "rows": [min, max]}: the profile's ranges of T and R, on profile 0
    build        {name: text or number} for people: seconds, peak bytes, versions
"""

import json
import os
import re
from typing import Any, Dict, List, NamedTuple, Tuple, Union

from edgeformer import strictjson as js
from edgeformer.bundle import Bundle
from edgeformer.errors import BundleError
from edgeformer.manifest import Manifest

ENGINE_FORMAT = 1  # raised by every new key
FOLDER = "engines"
RECORD = "engine.json"
LAYOUTS = ("split", "shared")
PRECISIONS = ("fp32", "fp16", "int8")
CACHE_DTYPES = ("float32", "float16")
BUILD = "python -m edgeformer build BUNDLE"


class Span(NamedTuple):
    """The sizes that a profile allows, both ends included."""

    least: int
    most: int


class EngineFile(NamedTuple):
    """One plan and the profile that it was built with."""

    file: str
    bytes: int
    sha256: str
    tokens: Span
    rows: Span


class Device(NamedTuple):
    """The GPU that tuned an engine, and the only kind that may load it."""

    name: str
    compute_capability: str


class EngineSet(NamedTuple):
    """A checked engine.json."""

    format: int
    key: str
    layout: str
    precision: str
    cache_dtype: str
    past_rows: Tuple[int, ...]
    tensorrt: str
    device: Device
    graphs: Dict[str, str]
    flags: Dict[str, str]
    engines: Dict[str, EngineFile]
    build: Dict[str, Union[str, int, float]]


def engine_json(data: Dict[str, Any]) -> str:
    """The text of an engine.json, refused here when a backend would refuse it."""
    text = json.dumps(data, indent=1) + "\n"
    parse_engine(js.parse(text.encode("ascii"), RECORD), RECORD)
    return text


def engine_sets(bundle: Bundle) -> Tuple[List[EngineSet], List[str]]:
    """The sets of engines that belong to this bundle, and why each other folder does not count.

    Folders without engine.json, being built or left by a crash, are passed over. Plans are
    checked by size here, and by hash when one is loaded.
    """
    folder = os.path.join(bundle.path, FOLDER)
    usable, refused = [], []
    for key in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
        # a builder's own begin with a dot, and have a record shortly before they are renamed
        if key.startswith(".") or not os.path.lexists(os.path.join(folder, key, RECORD)):
            continue
        try:
            usable.append(read_engine_set(bundle, key))
        except BundleError as error:
            refused.append(str(error))
    return usable, refused


def read_engine_set(bundle: Bundle, key: str) -> EngineSet:
    """Read and check one set: the record, its plans' sizes, and that it is of this bundle."""
    where = "/".join((FOLDER, key, RECORD))
    found = parse_engine(js.read(os.path.join(bundle.path, FOLDER, key, RECORD), where), where)
    if found.key != key:
        raise BundleError(f"{where} has the key {js.shown(found.key)}; build it again: {BUILD}")
    for name, digest in found.graphs.items():
        entry = bundle.manifest.files.get(name)
        if entry is None or entry.sha256 != digest:
            raise BundleError(
                f"{where} was built from another {name} than this bundle holds; "
                f"build it again: {BUILD}"
            )
    for engine in found.engines.values():
        path = plan_path(bundle, found, engine)
        size = os.path.getsize(path) if os.path.isfile(path) else 0
        if size != engine.bytes or os.path.islink(path):
            raise BundleError(
                f"{FOLDER}/{key}/{engine.file} has {size} bytes, its record says {engine.bytes}; "
                f"build it again: {BUILD}"
            )
    _check_fits(found, bundle.manifest, where)
    return found


def plan_path(bundle: Bundle, found: EngineSet, engine: EngineFile) -> str:
    """Where a plan lies."""
    return os.path.join(bundle.path, FOLDER, found.key, engine.file)


def parse_engine(data: Any, where: str) -> EngineSet:
    """Check every key of an engine.json; `where` names it in errors."""
    number = js.table(data, where).get("format")
    if number != ENGINE_FORMAT or isinstance(number, bool):
        raise BundleError(
            f"{where} has format {js.shown(number)}; this version of edgeformer reads format "
            f"{ENGINE_FORMAT}: build it again: {BUILD}"
        )
    top = js.record(data, where, EngineSet._fields)

    def at(key: str) -> Tuple[Any, str]:
        return top[key], f"{where}: {key}"

    found = EngineSet(
        format=number,
        key=_name(*at("key")),
        layout=js.choice(*at("layout"), known=LAYOUTS),
        precision=js.choice(*at("precision"), known=PRECISIONS),
        cache_dtype=js.choice(*at("cache_dtype"), known=CACHE_DTYPES),
        past_rows=js.items(*at("past_rows"), check=_size),
        tensorrt=js.text(*at("tensorrt")),
        device=_device(*at("device")),
        graphs={name: _sha256(*pair) for name, pair in _entries(*at("graphs"))},
        flags={name: js.text(*pair) for name, pair in _entries(*at("flags"))},
        engines={name: _engine(*pair) for name, pair in _entries(*at("engines"))},
        build={name: _fact(*pair) for name, pair in _entries(*at("build"))},
    )
    _check_together(found, where)
    return found


def _check_together(found: EngineSet, where: str) -> None:
    """What no key can break alone: the layout's plans, and sizes that cover every step."""
    wanted = {"prefill"} if found.layout == "shared" else {"prefill", "decode"}
    if set(found.engines) != wanted:
        raise BundleError(f"{where}: a {found.layout} set has {' and '.join(sorted(wanted))}")
    if not found.past_rows or list(found.past_rows) != sorted(set(found.past_rows)):
        raise BundleError(f"{where}: past_rows must ascend and hold at least one size")
    one = found.engines["prefill" if found.layout == "shared" else "decode"]
    if one.tokens.least != 1 or one.rows.least != 1:
        raise BundleError(f"{where}: no engine takes one token and gives one row")
    if found.layout == "split" and one.tokens.most != 1:
        raise BundleError(f"{where}: decode takes {one.tokens.most} tokens, it must take 1")


def _check_fits(found: EngineSet, manifest: Manifest, where: str) -> None:
    if found.past_rows[-1] < manifest.capacity:
        raise BundleError(
            f"{where} was built for {found.past_rows[-1]} cached rows, the bundle's capacity is "
            f"{manifest.capacity}; build it again: {BUILD}"
        )
    most, chunk = found.engines["prefill"].tokens.most, min(manifest.chunk, manifest.capacity)
    if most < chunk:
        raise BundleError(
            f"{where} takes {most} tokens a step, the bundle's chunk is {chunk}; "
            f"build it again: {BUILD}"
        )


def _engine(value: Any, where: str) -> EngineFile:
    entry = js.record(value, where, EngineFile._fields)
    return EngineFile(
        _name(entry["file"], where + ".file"),
        js.integer(entry["bytes"], where + ".bytes", 1, 2**53),
        _sha256(entry["sha256"], where + ".sha256"),
        _span(entry["tokens"], where + ".tokens"),
        _span(entry["rows"], where + ".rows"),
    )


def _span(value: Any, where: str) -> Span:
    sizes = js.items(value, where, _size)
    if len(sizes) != 2 or sizes[0] > sizes[1]:
        raise BundleError(f"{where} must be [least, most]")
    return Span(*sizes)


def _device(value: Any, where: str) -> Device:
    entry = js.record(value, where, Device._fields)
    return Device(*(js.text(entry[key], f"{where}.{key}") for key in Device._fields))


def _entries(value: Any, where: str) -> List[Tuple[str, Tuple[Any, str]]]:
    table = js.table(value, where)
    return [(name, (table[name], f"{where}[{js.shown(name)}]")) for name in table]


def _size(value: Any, where: str) -> int:
    return js.integer(value, where, 1, js.MOST_INT32)


def _fact(value: Any, where: str) -> Union[str, int, float]:
    return value if isinstance(value, str) else js.number(value, where, -(2**63), 2**63)


def _name(value: Any, where: str) -> str:
    # It becomes a path: one plain part, so that it cannot leave the folder.
    if not re.match(r"[\w][\w.+-]{0,199}\Z", js.text(value, where), re.ASCII):
        raise BundleError(f"{where} is {js.shown(value)}, not a plain file name")
    return value


def _sha256(value: Any, where: str) -> str:
    if not re.match(r"[0-9a-f]{64}\Z", js.text(value, where)):
        raise BundleError(f"{where} is {js.shown(value)}, not 64 hexadecimal digits")
    return value
