"""A phase of a profile as the document has it: the parts of its time, nodes, operators, layers."""

from collections import OrderedDict
from typing import Any, Dict, List, Optional, Sequence, Tuple

from edgeformer.bench.profile.places import PARTS, Places
from edgeformer.bench.profile.reads import Bytes, given_to, reads
from edgeformer.bench.profile.samples import (
    Phase,
    Sample,
    mean,
    middle,
    middle_samples,
    runs_of,
)
from edgeformer.bench.profile.trace import Run
from edgeformer.errors import EdgeformerError
from edgeformer.speed.costs import Steps

Row = Dict[str, Any]
_MULTIPLY = ("MatMul", "Gemm")  # parts of the names of products, fused or not


def figures(
    phase: Phase, plain: Sequence[Phase], runs: Sequence[Run], steps: Steps, rows: int
) -> Dict[str, Any]:
    """`plain`: the same phase without the profiler, once for each load. `rows`: cached before the
    first decoded token."""
    kept = middle_samples(phase.samples)
    spans = _spans(phase, rows, steps.manifest.chunk, steps.manifest.capacity)
    names, us, counts = _nodes(kept, runs)
    places = Places(steps.described(*spans[0])[0]).of_run(names)
    weights, cache, whole = _bytes(steps, spans)
    read = given_to(places, us, weights), given_to(places, us, cache)
    nodes = [
        {
            "name": name,
            "operator": operator,
            "layer": place.layer,
            "part": place.part or None,
            "module": place.module,
            "runs": count,
            "us": node_us,
            "weight_bytes": weight_bytes,
            "cache_bytes": cache_bytes,
        }
        for (name, operator), place, count, node_us, weight_bytes, cache_bytes in zip(
            names, places, counts, us, *read
        )
    ]
    parts = _parts(kept, runs, sum(us))
    without = [_plain(other) for other in plain]
    return {
        "what": "decode" if phase.length is None else "prefill",
        "tokens": 1 if phase.length is None else phase.length,
        "rows": spans[0][1],
        "steps": len(spans),
        "samples": len(phase.samples),
        "kept": len(kept),
        "us": sum(parts.values()),
        "plain_us": [found[0] for found in without],
        "plain_outside_us": [found[1] for found in without],
        "parts": parts,
        "weight_bytes": whole[0],
        "cache_bytes": whole[1],
        "operators": _grouped(nodes, lambda node: node["operator"]),
        "layers": _layers(nodes),
        "products": _grouped(filter(None, map(_product, nodes)), lambda node: node["product"]),
        "nodes": nodes,
    }


def _spans(phase: Phase, rows: int, chunk: int, capacity: int) -> List[Tuple[int, int]]:
    """(tokens, rows cached before) of each step of a sample; decoding: half-way through."""
    if phase.length is None:
        return [(1, rows + len(phase.samples) // 2)]
    chunk = min(chunk, capacity)
    starts = range(0, phase.length, chunk)
    return [(min(chunk, phase.length - start), start) for start in starts]


def _nodes(
    kept: Sequence[Sample], runs: Sequence[Run]
) -> Tuple[List[Tuple[str, str]], List[float], List[float]]:
    """Names and operators in the order of a run; microseconds and runs of each in a sample.

    Again the mean of the middle half, each node's own: a pause of the machine is no node's.
    """
    samples: "OrderedDict[Tuple[str, str], List[int]]" = OrderedDict()
    counts: Dict[Tuple[str, str], int] = {}
    for index, sample in enumerate(kept):
        for run in runs_of(sample, runs):
            for node in run.nodes:
                key = node.name, node.operator
                samples.setdefault(key, [0] * len(kept))[index] += node.us
                counts[key] = counts.get(key, 0) + 1
    us = [mean(middle(values)) for values in samples.values()]
    return list(samples), us, [counts[key] / len(kept) for key in samples]


def _bytes(steps: Steps, spans: Sequence[Tuple[int, int]]) -> Tuple[Bytes, Bytes, Tuple[int, int]]:
    """By node of our graph: of weights, of the cache; and both of the whole model."""
    weights: Bytes = {}
    cache: Bytes = {}
    whole = [0, 0]
    for tokens, past in spans:
        for total, found in zip((weights, cache), reads(steps, tokens, past)):
            for name, size in found.items():
                total[name] = total.get(name, 0) + size
        step = steps.prefill(tokens, past)
        whole[0] += step.weight_bytes
        whole[1] += step.cache_bytes
    return weights, cache, (whole[0], whole[1])


def _parts(kept: Sequence[Sample], runs: Sequence[Run], nodes_us: float) -> Dict[str, float]:
    """Where the whole time went, from the inside out. They add up to it.

    uneven: what nodes took beyond the figures that are told of them, in all `nodes_us`.
    """
    parts = {key: [] for key in ("nodes", "between", "run", "step", "outside")}  # type: Row
    for sample in kept:
        found = runs_of(sample, runs)
        nodes, executor, run = (
            sum(run.nodes_us for run in found),
            sum(run.executor_us for run in found),
            sum(run.us for run in found),
        )
        inside = sample.inside_s * 1e6
        if run > inside + 2 * len(found):
            raise EdgeformerError(
                f"a step of {inside:.0f} us holds runs of {run} us in onnxruntime's profile: it "
                "is of other steps; measure again"
            )
        parts["nodes"].append(nodes)
        parts["between"].append(executor - nodes)
        parts["run"].append(run - executor)
        parts["step"].append(inside - run)
        parts["outside"].append((sample.whole_s - sample.inside_s) * 1e6)
    found = {key: mean(values) for key, values in parts.items()}
    return dict(found, nodes=nodes_us, uneven=found["nodes"] - nodes_us)


def _plain(phase: Phase) -> Tuple[float, float]:
    """Microseconds of a sample, and of its part outside the backend's steps."""
    kept = middle_samples(phase.samples)
    return (
        mean([sample.whole_s * 1e6 for sample in kept]),
        mean([(sample.whole_s - sample.inside_s) * 1e6 for sample in kept]),
    )


def _grouped(nodes: Any, key: Any) -> List[Row]:
    """Sums of the nodes with one key, the longest first."""
    found: "OrderedDict[str, Row]" = OrderedDict()
    for node in nodes:
        row = found.setdefault(
            key(node),
            {"name": key(node), "nodes": 0, "us": 0.0, "weight_bytes": 0, "cache_bytes": 0},
        )
        row["nodes"] += 1
        for figure in ("us", "weight_bytes", "cache_bytes"):
            row[figure] += node[figure]
    return sorted(found.values(), key=lambda row: -row["us"])


def _layers(nodes: Sequence[Row]) -> List[Row]:
    """In the order in which the model has them, each with its parts."""
    rows = _grouped(nodes, lambda node: node["layer"])
    for row in rows:
        inside = [node for node in nodes if node["layer"] == row["name"]]
        row["parts"] = {
            part: sum(node["us"] for node in inside if node["part"] == part) for part in PARTS
        }
    return sorted(rows, key=lambda row: _rank(row["name"]))


def _rank(layer: str) -> Tuple[int, int]:
    name, _, number = layer.partition(" ")
    if name == "layer":
        return 2, int(number)
    return {"embedding": 0, "positions": 1, "head": 3}.get(name, 4), 0


def _product(node: Row) -> Optional[Row]:
    """A node that reads a matrix or the cache, with what it multiplies by."""
    if node["cache_bytes"]:
        return dict(node, product="cached keys and values")
    if not node["weight_bytes"] or not any(word in node["operator"] for word in _MULTIPLY):
        return None
    layer, _, path = node["module"].partition("/")
    return dict(node, product=path if layer.startswith("blocks.") else node["module"] or "head")
