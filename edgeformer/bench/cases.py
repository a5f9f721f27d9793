"""What is measured: bundles times backends, and lengths that fit all of them."""

import hashlib
import os
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from edgeformer.bench.statistics import CONFIDENCE
from edgeformer.bench.worker import WARM_TOKENS
from edgeformer.bundle import MANIFEST, Bundle
from edgeformer.device.memory import machine_memory
from edgeformer.engines.record import engine_sets
from edgeformer.errors import EdgeformerError
from edgeformer.manifest import Manifest

PROMPTS, ROWS = (16, 64, 256), (64, 256, 1024)
NEW_TOKENS, ROUNDS, ROUNDS_SIDE_BY_SIDE = 64, 10, 30
PROCESS_BYTES = 40000000  # of Python, numpy and onnxruntime: less than any version takes
MOST = 1 << 20


class Settings(NamedTuple):
    """What every case does in every round."""

    rounds: int
    new_tokens: int
    prompt_tokens: Tuple[int, ...]  # ascending; greedy decoding follows the first
    rows: Tuple[int, ...]  # ascending; a case leaves out those beyond its capacity
    seed: int
    confidence: float = CONFIDENCE
    side_by_side: bool = False  # all cases at once, in blocks of tokens by turns


class Asked(NamedTuple):
    """The same as the user asked for it; None: what fits."""

    rounds: int = ROUNDS
    new_tokens: Optional[int] = None
    prompt_tokens: Optional[Sequence[int]] = None
    rows: Optional[Sequence[int]] = None
    seed: int = 1
    side_by_side: bool = False


class Case(NamedTuple):
    """One bundle on one backend. `model` is what the document says of it."""

    name: str
    path: str
    backend: str  # "ort" or "trt"
    precision: str  # expected; the child tells what it is
    threads: Optional[int]
    capacity: int
    model: Dict[str, Any]
    busy: float = 0.0  # the share by which each step is made slower: see worker.slow_down
    engines: Optional[str] = None  # the key of a set of TensorRT engines; None: the newest


def cases_of(
    bundles: Sequence[Bundle], backends: Sequence[str], threads: Optional[int]
) -> List[Case]:
    """Every bundle on every backend, in the order given; each with a name of its own."""
    found = []
    for bundle in bundles:
        for name in backends:
            backend, precision = _chosen(bundle, name)
            manifest = bundle.manifest
            found.append(
                Case(
                    f"{manifest.name} {precision} {backend}",
                    bundle.path,
                    backend,
                    precision,
                    threads,
                    manifest.capacity,
                    model_of(bundle, precision),
                )
            )
    return _named_apart(found)


def model_of(bundle: Bundle, precision: str) -> Dict[str, Any]:
    """What the document says of a bundle."""
    manifest = bundle.manifest
    sizes = bundle.sizes()
    with open(os.path.join(bundle.path, MANIFEST), "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()  # it holds those of all other files
    return {
        "name": manifest.name,
        "parameters": None,
        "weights_bytes": sizes.get("weights.bin", 0),
        "files_bytes": sum(sizes.values()),
        "sha256": digest,
        "precision": manifest.precision,
        "dialect": manifest.dialect,
        "capacity": manifest.capacity,
        "chunk": manifest.chunk,
        "quality": _quality(manifest, precision),
    }


def settings_of(asked: Asked, cases: Sequence[Case]) -> Settings:
    """What was asked for, refused where it does not fit; else the most usual lengths that do."""
    least = min(cases, key=lambda case: case.capacity)
    most = max(case.capacity for case in cases)
    prompts = _lengths("--prompt-tokens", asked.prompt_tokens, PROMPTS, least.capacity)
    rows = _lengths("--rows", asked.rows, ROWS, most - 1)
    for name, value, low in (("rounds", asked.rounds, 1), ("seed", asked.seed, 0)):
        if not low <= value <= MOST:
            raise EdgeformerError(f"--{name} is {value}; it must be from {low} to {MOST}")
    room = least.capacity - prompts[0] + 1
    if room < WARM_TOKENS:
        raise EdgeformerError(
            f"a prompt of {prompts[0]} tokens leaves {room} of {least.name}'s capacity of "
            f"{least.capacity}, and warming up takes {WARM_TOKENS}; give a shorter --prompt-tokens"
        )
    new = min(NEW_TOKENS, room) if asked.new_tokens is None else asked.new_tokens
    if not 2 <= new <= room:
        raise EdgeformerError(
            f"--new-tokens is {new}; after a prompt of {prompts[0]} tokens {least.name} has room "
            f"for 2 to {room} (capacity {least.capacity}): give fewer, a shorter --prompt-tokens, "
            "or export with a larger --capacity"
        )
    if asked.side_by_side:
        _refuse_together(cases, machine_memory().available_bytes)
    side = asked.side_by_side
    return Settings(asked.rounds, new, prompts, rows, asked.seed, side_by_side=side)


def _refuse_together(cases: Sequence[Case], available: Optional[int]) -> None:
    """Where there is nothing to compare, or plainly no memory for all cases at once."""
    if len(cases) < 2:
        raise EdgeformerError(
            "--side-by-side compares, and here is one case; leave it out, or give two bundles "
            "(one twice shows the noise) or --backend ort,trt"
        )
    weights = sum(case.model["weights_bytes"] for case in cases)
    needed = weights + len(cases) * PROCESS_BYTES
    if available is not None and needed > available:
        raise EdgeformerError(
            f"--side-by-side holds all {len(cases)} cases at once: {weights / 1e6:.0f} MB of "
            f"weights and at least {len(cases) * PROCESS_BYTES / 1e6:.0f} MB for their processes, "
            f"and {available / 1e6:.0f} MB are available; leave out --side-by-side to measure "
            "one after the other, or give fewer bundles"
        )


def _lengths(
    option: str, asked: Optional[Sequence[int]], usual: Sequence[int], most: int
) -> Tuple[int, ...]:
    """Ascending, each once; of the usual ones those that fit, or half of what fits."""
    if asked is None:
        return tuple(length for length in usual if length <= most) or (max(1, (most + 1) // 2),)
    wrong = [length for length in asked if not 1 <= length <= most]
    if wrong or not asked:
        raise EdgeformerError(
            f"{option} has {wrong[0] if wrong else 'no length'}; with these bundles' capacity it "
            f"may have 1 to {most}: give fewer, or export with a larger --capacity"
        )
    return tuple(sorted(set(asked)))


def _chosen(bundle: Bundle, backend: str) -> Tuple[str, str]:
    """(backend, precision) that would run; "auto" is TensorRT where an engine was built."""
    if backend not in ("auto", "ort", "trt"):
        raise EdgeformerError(f"no backend is called {backend[:40]!r}; choose auto, ort, trt")
    sets = engine_sets(bundle)[0] if backend != "ort" else []
    if sets:
        return "trt", sets[0].precision
    return ("ort" if backend == "auto" else backend), bundle.manifest.precision


def _quality(manifest: Manifest, precision: str) -> Optional[Dict[str, float]]:
    table = manifest.quality
    row = None if table is None else table.precisions.get(precision)
    if table is None or row is None:
        return None
    return {
        "perplexity": row.perplexity,
        "reference_perplexity": table.perplexity,
        "kl": row.kl,
        "top1": row.top1,
    }


def _named_apart(cases: Sequence[Case]) -> List[Case]:
    """Equal names get the folder's where that tells them apart, else a number: one bundle twice is
    a test of the noise."""
    found: List[Case] = []
    for index, case in enumerate(cases):
        alike = [other for other in cases if other.name == case.name]
        folders = [os.path.basename(os.path.abspath(other.path)) for other in alike]
        if len(alike) > 1 and len(set(folders)) == len(alike):
            case = case._replace(
                name=f"{case.name} ({os.path.basename(os.path.abspath(case.path))})"
            )
        elif len(alike) > 1:
            before = [other for other in cases[:index] if other.name == case.name]
            case = case._replace(name=f"{case.name} #{len(before) + 1}")
        found.append(case)
    return found
