"""Which engines are wanted: from a bundle, a device and what the user asked, to a key.

Two builds with the same key give engines that serve the same: the key covers graphs and weights,
TensorRT, the GPU, precision, shapes and flags.
"""

import hashlib
import json
import re
from typing import Any, Dict, List, NamedTuple, Tuple

from edgeformer.bundle import Bundle
from edgeformer.contract import CPU_ONLY, Graph
from edgeformer.engines.here import Here
from edgeformer.engines.needs import SCORED_ROWS
from edgeformer.engines.record import Span
from edgeformer.errors import EdgeformerError
from edgeformer.manifest import Manifest
from edgeformer.onnxfile import external_data
from edgeformer.targets import TARGETS

INT8 = "int8-qdq"  # graphs with quantized weights and activations
RECIPE = 1  # raised when the same wishes would be built in another way
WORKSPACES = (256, 128, 64, 512)  # MiB, tried in this order
LEAST_TOKENS = 8  # of a prefill engine beside a decode engine: verification takes that many
BUCKET = 64  # rows, the first of the sizes that double
FREE = "an input with a free size other than T, P and R"

Shape = List[int]


class Asked(NamedTuple):
    """What the user wants of the engines."""

    precision: str
    past_rows: Tuple[int, ...]
    workspaces: Tuple[int, ...]  # MiB
    tactics: Tuple[str, ...]  # empty: TensorRT's own choice


class Wanted(NamedTuple):
    """One set of engines, down to its key."""

    key: str
    layout: str
    asked: Asked
    typed: bool  # the graphs' own types are the engines'
    cache_dtype: str
    ranges: Dict[str, Tuple[Span, Span]]  # graph -> tokens, rows
    graphs: Dict[str, str]  # file -> sha256, of all that goes in
    flags: Dict[str, str]


def engines_of(manifest: Manifest) -> Tuple[str, ...]:
    """The precisions of engines that can be built from a bundle's graphs; () if none can."""
    if manifest.dialect == "ort":
        return ()
    return {"fp32": ("fp16", "fp32"), "fp16": ("fp16",), INT8: ("int8",)}.get(
        manifest.precision, ()
    )


def check_precision(manifest: Manifest, here: Here, precision: str, force: bool) -> bool:
    """Whether the graphs' own types are the engines'; an error where it cannot be built here."""
    stored, name = manifest.precision, manifest.name
    export = "export it again: python -m edgeformer.export RECIPE.toml --precision {} -o BUNDLE"
    if precision == "int8" and not force:
        _check_int8(here)
    gives = engines_of(manifest)
    if stored in CPU_ONLY or manifest.dialect == "ort":
        needed = {"int8": INT8}.get(precision, "fp32")
        raise EdgeformerError(
            f"{name} holds {stored} graphs in ONNX Runtime's own operators, for a CPU; no TensorRT "
            "reads them: " + export.format(needed) + " --target jetson-nano"
        )
    if precision not in gives:
        needed = {"int8": INT8, "fp16": "fp32", "fp32": "fp32"}[precision]
        can = f"--precision {' or '.join(gives)} can be built from them; " if gives else ""
        raise EdgeformerError(
            f"{name} holds {stored} graphs and --precision {precision} needs {needed} graphs; "
            + can
            + export.format(needed)
        )
    if precision == "fp16" and "fp16" not in manifest.golden.limits:
        raise EdgeformerError(
            f"{name} cannot be trusted in FP16, as its export found out; build it with --precision "
            "fp32, or export it again to see why"
        )
    if stored == "fp16" and not here.has_types:
        raise EdgeformerError(
            f"{name} holds fp16 graphs, which TensorRT {here.tensorrt} does not take (10 and newer "
            "do); from fp32 graphs it builds fp16 engines: " + export.format("fp32")
        )
    if stored == "fp32" and precision == "fp16" and not here.has_flags:
        raise EdgeformerError(
            f"TensorRT {here.tensorrt} has no FP16 flag any more: fp16 engines come from fp16 "
            f"graphs, and {name} holds fp32; " + export.format("fp16") + ", or build "
            "--precision fp32"
        )
    return stored == "fp16" or not here.has_flags


def _check_int8(here: Here) -> None:
    """Refuse INT8 where the GPU has none: for the boards that are known, and for all others."""
    for target in TARGETS.values():
        version = target.compute_capability
        here_too = version and "%d.%d" % version == here.compute_capability
        if here_too and "int8" in target.refused:
            raise EdgeformerError(target.refused["int8"] + "; --force tries it all the same")
    if not here.fast_int8:
        raise EdgeformerError(
            f"{here.name} has no fast INT8, says TensorRT {here.tensorrt}: an INT8 engine would be "
            "no faster than FP16; use --precision fp16, or --force to try"
        )


def past_rows(text: str, capacity: int) -> Tuple[int, ...]:
    """The sizes of the cache that `--past-rows` means; the last one is the capacity."""
    if text == "capacity":
        return (capacity,)
    sizes = []
    if text == "buckets":
        size = BUCKET
        while size < capacity:
            sizes.append(size)
            size *= 2
        return tuple(sizes) + (capacity,)
    if not re.match(r"\d{1,9}(,\d{1,9})*\Z", text, re.ASCII):
        raise EdgeformerError(
            f"--past-rows is {text[:60]!r}; say capacity, buckets, or numbers: 64,{capacity}"
        )
    sizes = sorted({int(part) for part in text.split(",")})
    if sizes[0] < 1 or sizes[-1] != capacity:
        raise EdgeformerError(
            f"--past-rows is {text[:60]}; its sizes begin at 1 and end at the bundle's capacity, "
            f"{capacity}"
        )
    return tuple(sizes)


def wanted(bundle: Bundle, here: Here, asked: Asked, layout: str, typed: bool) -> Wanted:
    """The set of one layout."""
    manifest = bundle.manifest
    ranges = _ranges(manifest, layout)
    files = {}
    for kind in ranges:
        graph = manifest.graphs[kind].file
        files[graph] = manifest.files[graph].sha256
        for entry in external_data(bundle.file(graph), graph):
            files[entry["location"]] = manifest.files[entry["location"]].sha256
    half = not typed and asked.precision != "fp32"
    stored = next(s for s in manifest.graphs["prefill"].inputs if s.name.startswith("past."))
    flags = {
        "typing": "graph" if typed else "flags",
        "workspaces_mib": ",".join(map(str, asked.workspaces)),
        "tactics": ",".join(asked.tactics) or "default",
    }
    content = {
        "recipe": RECIPE,
        "here": here[:3],
        "precision": asked.precision,
        "layout": layout,
        "past_rows": asked.past_rows,
        "ranges": ranges,
        "graphs": files,
        "flags": flags,
    }
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode("ascii")).hexdigest()
    return Wanted(
        key=f"{asked.precision}-{layout}-{digest[:16]}",
        layout=layout,
        asked=asked,
        typed=typed,
        cache_dtype="float16" if half else stored.dtype,
        ranges=ranges,
        graphs=files,
        flags=flags,
    )


def shapes(graph: Graph, found: Wanted, kind: str) -> Dict[str, Tuple[Shape, Shape, Shape]]:
    """Least, best and largest shape of every input. The best is where the time is spent."""
    tokens, rows = found.ranges[kind]
    past = found.asked.past_rows
    best = tokens.least if found.layout == "shared" else tokens.most
    sizes = {
        "T": (tokens.least, best, tokens.most),
        "R": (rows.least, rows.least, rows.most),
        "P": (past[0], past[-1], past[-1]),
    }
    made = {}
    for spec in graph.inputs:
        free = [dim for dim in spec.shape if isinstance(dim, str)]
        if set(free) - set(sizes):
            raise EdgeformerError(f"{graph.file}: {spec.name} is {FREE}; export the bundle again")
        ends = [[sizes[d][i] if isinstance(d, str) else d for d in spec.shape] for i in range(3)]
        made[spec.name] = (ends[0], ends[1], ends[2])
    return made


def half_tensors(graph: Graph, found: Wanted) -> List[str]:
    """Inputs and outputs that the builder makes FP16: the cache, and new rows for it."""
    if found.typed or found.cache_dtype != "float16":
        return []
    ends: Any = graph.inputs + graph.outputs
    return [spec.name for spec in ends if spec.name.startswith(("past.", "new."))]


def _ranges(manifest: Manifest, layout: str) -> Dict[str, Tuple[Span, Span]]:
    chunk = min(manifest.chunk, manifest.capacity)
    rows = Span(1, min(SCORED_ROWS, chunk))
    if layout == "shared":
        return {"prefill": (Span(1, chunk), rows)}
    one = Span(1, 1)
    return {"decode": (one, one), "prefill": (Span(min(LEAST_TOKENS, chunk), chunk), rows)}
