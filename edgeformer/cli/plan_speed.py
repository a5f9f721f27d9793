"""`plan --speed`: what a token costs, what a machine allows, and what a short run reaches."""

import argparse
import json
from statistics import median
from typing import Any, Dict, List, NamedTuple, Optional

from edgeformer.bundle import Bundle
from edgeformer.cli import console
from edgeformer.errors import EdgeformerError

ROWS = 64
MIB = 1 << 20
DISTURBED = 3.0  # the highest of a probe's passes for the lowest; on an idle machine 1.1 to 2


class Speed(NamedTuple):
    """All that is reported. `measured` is None where nothing was run here."""

    name: str
    where: str
    precision: str
    threads: int  # 0: a GPU
    predicted_for_elsewhere: bool
    decode: Any  # costs.Step
    prefill: Any
    machine: Any  # predict.Machine
    token: Any  # predict.Prediction
    prompt: Any
    measured: Any
    facts: Dict[str, Any]


def run(arguments: argparse.Namespace, bundle: Bundle, place: Any, case: Any) -> int:
    found = _look(arguments, bundle, place, case)
    if arguments.json:
        print(json.dumps(_document(found), indent=1))
    else:
        console.TextOut().write("\n".join(_lines(found)) + "\n")
    return 0


def _look(arguments: argparse.Namespace, bundle: Bundle, place: Any, case: Any) -> Speed:
    # numpy comes with these, which --help must not need
    from edgeformer.backends import open_backend
    from edgeformer.backends.threads import check_threads, default_threads
    from edgeformer.speed import facts, here
    from edgeformer.speed.costs import Steps
    from edgeformer.speed.predict import predict

    manifest = bundle.manifest
    onnxruntime = place.target.compute_capability is None
    rows = min(ROWS, manifest.capacity - 1) if arguments.rows is None else arguments.rows
    if not 0 <= rows < manifest.capacity:
        most = manifest.capacity - 1
        raise EdgeformerError(f"--rows is {rows}; it must be 0 to {most} for this bundle")
    threads = arguments.threads
    if threads is not None:
        check_threads(threads, "--threads")
    if manifest.precision == "int8-qdq" and onnxruntime:
        raise EdgeformerError(
            "the speed of int8-qdq graphs is predicted for a TensorRT engine only; use --target "
            "jetson-orin-nano, or export --precision int8-dynamic for a CPU"
        )
    steps = Steps(bundle, case.precision, onnxruntime)
    measured = None
    if onnxruntime:
        threads = default_threads() if threads is None else threads
        if not arguments.no_run:
            with open_backend(bundle, "ort", threads) as backend:
                measured = here.measure(backend, manifest, rows)
        machine, known = here.Probe(steps, rows, threads).machine(), {}
    else:
        name = place.name if place.name in facts.SPEEDS else _first_board(place)
        machine, known = facts.machine(name, case.precision), facts.facts(name, case.precision)
    decode, prefill = steps.decode(rows), steps.prefill(here.chunk_of(manifest))
    return Speed(
        manifest.name,
        "this machine" if onnxruntime else place.name,
        case.precision,
        (threads or 1) if onnxruntime else 0,
        not onnxruntime,
        decode,
        prefill,
        machine,
        predict(decode, machine, compiled=not onnxruntime),
        predict(prefill, machine, compiled=not onnxruntime),
        measured,
        known,
    )


def _first_board(place: Any) -> str:
    """On the board itself the name has no memory size; its speed is the first one's."""
    return f"{place.target.name}-{next(iter(place.target.boards))}"


def _lines(found: Speed) -> List[str]:
    decode, machine, token = found.decode, found.machine, found.token
    on = f"{found.threads} threads" if found.threads else "a TensorRT engine"
    lines = [
        f"{found.name} on {found.where}, {found.precision}, {on}, {decode.past} rows in use",
        "",
        f"a token reads {decode.bytes / MIB:.1f} MiB (weights {decode.weight_bytes / MIB:.1f}, "
        f"cache {decode.cache_bytes / MIB:.1f}), computes {decode.flops / 1e6:.1f} MFLOP, "
        f"runs {_nodes(found)} nodes",
        f"a prompt of {found.prefill.tokens} tokens computes {found.prefill.flops / 1e9:.2f} GFLOP",
        "",
    ]
    lines += _facts(found) if found.predicted_for_elsewhere else _probe(machine)
    lines += [
        "",
        f"ceiling: {_span(token.ceiling)} tokens/s, if reading and products were all",
        f"predicted: {_span(token.per_second())} tokens/s; most of it is {token.bound_by}",
        f"predicted: {_span(found.prompt.per_second(found.prefill.tokens))} prompt tokens/s",
    ]
    if found.predicted_for_elsewhere:
        lines.append("all of it is predicted: no board was measured; docs/prediction.md")
    measured = _measured(found)
    if measured is not None:
        lines.append(
            f"measured: {measured['tokens_per_s']:.1f} tokens/s, "
            f"{measured['prompt_tokens_per_s']:.0f} prompt tokens/s in a short run: "
            f"{measured['share_of_ceiling']:.0%} of the ceiling"
        )
    return lines


def _probe(machine: Any) -> List[str]:
    lines = [
        "this machine, probed just now (lowest, median and highest pass):",
        f"  reads {_span(machine.bandwidth, 1e9)} GB/s at the bundle's working set (numpy)",
        f"  multiplies and adds {_span(machine.rate, 1e9)} G/s for one token, "
        f"{_span(machine.chunk_rate, 1e9)} for a prompt (onnxruntime)",
        f"  {_span(machine.node, 1e-6)} us for a small node, {_span(machine.host, 1e-6)} us for "
        "the Python of a step",
    ]
    apart = max(each.high / each.low for each in (machine.bandwidth, machine.rate))
    if apart > DISTURBED:
        lines.append(
            f"  passes of one probe differ {apart:.0f} times: other programs run here, and none of "
            "this can be trusted; try again without them"
        )
    return lines


def _facts(found: Speed) -> List[str]:
    lines = ["what is believed of the board (lowest and highest):"]
    for name, pair in found.facts.items():
        lines.append(f"  {name} {pair[0].value:g} to {pair[1].value:g}")
        lines += [f"    {fact.value:g}: {fact.source}; {fact.note}" for fact in pair]
    return lines


def _nodes(found: Speed) -> str:
    decode = found.decode
    if found.predicted_for_elsewhere:
        return f"{decode.least_nodes} to {decode.nodes}"
    return str(decode.nodes)


def _span(values: Any, unit: float = 1.0) -> str:
    low, middle, high = (_short(value / unit) for value in values)
    return f"{low} .. {middle} .. {high}"


def _short(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def _measured(found: Speed) -> Optional[Dict[str, float]]:
    if found.measured is None:
        return None
    token = median(found.measured.token_s)
    return {
        "token_s": token,
        "tokens_per_s": 1 / token,
        "tokens": len(found.measured.token_s),
        "prompt_tokens_per_s": found.measured.tokens / median(found.measured.prefill_s),
        "share_of_ceiling": 1 / token / found.token.ceiling.middle,
        "predicted_over_measured": found.token.seconds.middle / token,
    }


def _document(found: Speed) -> Dict[str, Any]:
    """SI units, in the key's name; `predicted` is true of everything but `measured`."""

    def step(costs: Any, prediction: Any) -> Dict[str, Any]:
        return {
            "tokens": costs.tokens,
            "past_rows": costs.past,
            "weight_bytes": costs.weight_bytes,
            "cache_bytes": costs.cache_bytes,
            "flops": costs.flops,
            "nodes": costs.nodes,
            "least_nodes": costs.least_nodes,
            "seconds": dict(prediction.seconds._asdict()),
            "parts_s": prediction.parts,
            "tokens_per_s": dict(prediction.per_second(costs.tokens)._asdict()),
        }

    return {
        "name": found.name,
        "where": found.where,
        "precision": found.precision,
        "threads": found.threads or None,
        "predicted": True,
        "from": "published facts" if found.predicted_for_elsewhere else "a probe of this machine",
        "machine": {
            "bandwidth_bytes_per_s": dict(found.machine.bandwidth._asdict()),
            "multiply_adds_per_s": dict(found.machine.rate._asdict()),
            "chunk_multiply_adds_per_s": dict(found.machine.chunk_rate._asdict()),
            "node_s": dict(found.machine.node._asdict()),
            "host_s": dict(found.machine.host._asdict()),
        },
        "facts": {
            name: [dict(fact._asdict()) for fact in pair] for name, pair in found.facts.items()
        },
        "decode": step(found.decode, found.token),
        "prefill": step(found.prefill, found.prompt),
        "ceiling_tokens_per_s": dict(found.token.ceiling._asdict()),
        "measured": _measured(found),
    }
