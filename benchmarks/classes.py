"""What a kind of model costs on a CPU: a token of it against one of a plain model, in turns.

    python benchmarks/classes.py -o FILE.json

The plain model has the shape of SmolLM2-135M with a vocabulary of 4096 and random weights, so that
its layers take nearly all the time. Each class changes one choice of it and is exported in the same
way, to a temporary folder. A ratio is the CPU time of a turn of tokens by that of the plain model's
turn beside it, in one process; half of the pairs are of a process that loaded the class first.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any, Dict, List, Optional, Sequence
from unittest import mock

# This clone's, installed or not
sys.path.insert(1, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from edgeformer.backends import open_backend
from edgeformer.bench import conditions, worker
from edgeformer.bench.statistics import median, quantile
from edgeformer.bundle import Bundle
from edgeformer.cli.stdout import ends_well
from edgeformer.errors import EdgeformerError
from edgeformer.wholefile import check_writable

PLAIN = "plain"
SHAPE: Dict[str, Any] = {
    "vocab_size": 4096,
    "d_model": 576,
    "n_layers": 30,
    "n_heads": 9,
    "n_kv_heads": 3,
    "d_ff": 1536,
    "max_positions": 1024,
}
# `rope`: the width that turns. `window`: of every other layer.
CLASSES: Dict[str, Dict[str, Any]] = {
    "ALiBi": {"position": "alibi"},
    "learned positions": {"position": "learned"},
    "sinusoidal positions": {"position": "sinusoidal"},
    "32 of 64 turn (inside the operator)": {"rope": 32},
    "20 of 64 turn (before the operator)": {"rope": 20},
    "heads of 60, in room for 64": {"head_dim": 60},
    "windows of 64 in every other layer": {"window": 64},
    "soft cap of attention": {"attention_soft_cap": 50.0},
    "1 key head (MQA)": {"n_kv_heads": 1},
    "9 key heads (MHA)": {"n_kv_heads": 9},
    "norms of queries and keys": {"qk_norm": "head"},
    "LayerNorm": {"norm": "layernorm"},
    "parallel residual, one norm": {"parallel": "one_norm"},
}
STEP = 64  # tokens of a prompt at once
OWN_WINDOW = 16  # tokens


@ends_well
def main(arguments: Optional[List[str]] = None) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    unknown = [name for name in options.only or () if name not in CLASSES]
    if unknown:
        parser.error(f"no class is called {unknown[0]!r}; there are: {', '.join(CLASSES)}")
    most = SHAPE["max_positions"] - options.tokens - 1
    if options.tokens < 1 or options.rounds < 1 or not all(0 < n <= most for n in options.rows):
        parser.error(f"--tokens and --rounds must be at least 1, --rows 1 to {most}")
    try:
        _measure(options)
    except EdgeformerError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def _measure(options: argparse.Namespace) -> None:
    if options.output:
        check_writable(options.output)
    document = _conditions(options)
    with tempfile.TemporaryDirectory() as folder:
        plain, document["plain_bytes"] = _exported(PLAIN, {}, "ort", folder, options)
        for name in options.only or CLASSES:
            path, size = _exported(name, CLASSES[name], "ort", folder, options)
            found = {"bytes": size, "rows": _compared(plain, path, options)}
            if options.portable:
                other, _ = _exported(name, CLASSES[name], "portable", folder, options)
                found["portable"] = _compared(path, other, options)
            document["classes"][name] = found
            print(_line(name, found, document["plain_bytes"]), file=sys.stderr, flush=True)
            if options.output:  # at once: a run takes long
                with open(options.output, "w", encoding="utf-8") as file:
                    json.dump(document, file, indent=1)
                    file.write("\n")
    print(table(document))


def _conditions(options: argparse.Namespace) -> Dict[str, Any]:
    machine = conditions.machine()
    with _process() as process:
        machine["packages"] = conditions.packages([{"packages": process.submit(_told).result()}])
    return {
        "made": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": machine,
        "precision": options.precision,
        "threads": options.threads,
        "tokens": options.tokens,
        "rounds": options.rounds,
        "shape": SHAPE,
        "classes": {},
    }


def _told() -> Any:
    """In a process of its own, as the measured ones."""
    import onnxruntime  # noqa: F401

    return worker.packages()


def _process() -> ProcessPoolExecutor:
    """A fresh one: what a process loads later can be quicker."""
    return ProcessPoolExecutor(1, mp_context=get_context("spawn"))


def _exported(
    name: str, change: Dict[str, Any], dialect: str, folder: str, options: argparse.Namespace
) -> Any:
    """Its path and the bytes of its bundle."""
    import torch

    from edgeformer.export import build, reading
    from edgeformer.export.gate import Gate
    from edgeformer.nn.decoder import Decoder

    torch.manual_seed(1)
    decoder = Decoder(config_of(change))
    path = os.path.join(folder, f"{len(os.listdir(folder))}-{dialect}")
    asked = {"precision": options.precision, "dialect": dialect, "target": "cpu", "name": "class"}
    # What random weights write takes long at full length and says nothing of a quality, and their
    # likeliest tokens change places.
    with mock.patch.object(build, "own_text", lambda model, _: reading.own_text(model, OWN_WINDOW)):
        return path, build.export_decoder(decoder, path, gate=Gate(allow=True), **asked).bytes


def config_of(change: Dict[str, Any]) -> Any:
    """The plain model's, with the change of a class."""
    from edgeformer.nn.config import ModelConfig, Rope

    values = {**SHAPE, **change}
    if "rope" in change:
        values["rope"] = Rope(width=change["rope"])
    if "window" in change:
        layers = range(values["n_layers"])
        values["window"] = tuple(change["window"] if i % 2 else None for i in layers)
    return ModelConfig(**values)


def _compared(first: str, second: str, options: argparse.Namespace) -> Dict[str, Any]:
    """The second for each of the first at each number of rows, from both orders of loading."""
    asked = options.rows, options.threads, options.rounds, options.tokens
    orders = []
    for paths in ([first, second], [second, first]):
        with _process() as process:
            orders.append(process.submit(_turns, paths, *asked).result())
    found = {}
    for rows in options.rows:
        ahead, behind = (order[rows] for order in orders)
        pairs = [list(pair) for pair in zip(*ahead)], [list(pair)[::-1] for pair in zip(*behind)]
        found[str(rows)] = {"seconds": pairs, **summary(pairs)}
    return found


def summary(orders: Sequence[Sequence[Sequence[float]]]) -> Dict[str, Any]:
    """Of pairs of seconds a token: those of one order of loading, and those of the other."""
    ratios = [[second / first for first, second in pairs] for pairs in orders]
    everything = [ratio for order in ratios for ratio in order]
    return {
        "ratio": (median(ratios[0]) * median(ratios[1])) ** 0.5,
        "quartiles": [quantile(everything, share) for share in (0.25, 0.75)],
        "first_ms": 1e3 * median([pair[0] for pairs in orders for pair in pairs]),
    }


def _turns(
    paths: Sequence[str], rows: Sequence[int], threads: int, rounds: int, tokens: int
) -> Dict[int, List[List[float]]]:
    """CPU seconds a token of each bundle's turns, in the order in which they were loaded."""
    backends = [open_backend(Bundle.open(path), "ort", threads) for path in paths]
    found: Dict[int, List[List[float]]] = {}
    for wanted in sorted(rows):
        for backend in backends:
            _fill(backend, wanted)
        found[wanted] = [[] for _ in backends]
        for turn in range(rounds):
            order = range(len(backends)) if turn % 2 == 0 else reversed(range(len(backends)))
            for index in order:
                found[wanted][index].append(_turn(backends[index], wanted, tokens))
    for backend in backends:
        backend.close()
    return found


def _fill(backend: Any, rows: int) -> None:
    while backend.cached < rows:
        at = backend.cached
        count = min(STEP, rows - at)
        backend.step(_ids(at, count), range(at, at + count), [count - 1], "token")


def _turn(backend: Any, rows: int, tokens: int) -> float:
    backend.truncate(rows)
    backend.step(_ids(rows, 1), [rows], [0], "token")  # what the other one threw out of the caches
    started = time.process_time()
    for at in range(rows + 1, rows + 1 + tokens):
        backend.step(_ids(at, 1), [at], [0], "token")
    spent = (time.process_time() - started) / tokens
    backend.truncate(rows)
    return spent


def _ids(start: int, count: int) -> List[int]:
    return [(7 * at) % SHAPE["vocab_size"] for at in range(start, start + count)]


def table(document: Dict[str, Any]) -> str:
    """All classes, as docs have them."""
    classes = document["classes"]
    one = next(iter(classes.values()))
    heads = [f"a token behind {rows} rows" for rows in one["rows"]]
    heads += [f"portable for each of ort, {rows} rows" for rows in one.get("portable", ())]
    lines = [f"| class | {' | '.join(heads)} | file |", "|---" * (len(heads) + 2) + "|"]
    return "\n".join(
        [*lines, *(_line(name, found, document["plain_bytes"]) for name, found in classes.items())]
    )


def _line(name: str, found: Dict[str, Any], plain_bytes: int) -> str:
    cells = []
    for told in (*found["rows"].values(), *found.get("portable", {}).values()):
        low, high = told["quartiles"]
        cells.append(f"{told['ratio']:.2f} ({low:.2f} to {high:.2f})")
    return f"| {name} | {' | '.join(cells)} | {found['bytes'] / plain_bytes:.2f} |"


def _parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python benchmarks/classes.py",
        description="What a kind of model costs on a CPU, against a plain model.",
    )
    add = made.add_argument
    add("--only", action="append", metavar="CLASS", help="this one; more than once: these")
    add("--precision", default="n8", choices=("fp32", "n8", "n4"), help="(default: n8)")
    add("--portable", action="store_true", help="also dialect portable against ort, each class")
    add("--rows", type=int, nargs="+", default=[100, 500], help="cached (default: 100 500)")
    add("--tokens", type=int, default=20, help="of a turn (default: 20)")
    add("--rounds", type=int, default=6, help="in each order of loading (default: 6)")
    add("--threads", type=int, default=1, help="of the CPU (default: 1)")
    add("-o", dest="output", metavar="FILE", help="write the result as JSON")
    return made


if __name__ == "__main__":
    sys.exit(main())
