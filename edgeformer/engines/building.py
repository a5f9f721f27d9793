"""Building a set of engines: what is asked, checked against what is here, and made in children."""

import os
import time
from typing import Callable, List, NamedTuple, Sequence, Tuple

from edgeformer import __version__
from edgeformer.bundle import Bundle
from edgeformer.contract import FP32_PREFIX
from edgeformer.engines import fit, store
from edgeformer.engines.attempt import Ended, Job, run_child
from edgeformer.engines.failures import Tried, explained, kind_of
from edgeformer.engines.here import Here
from edgeformer.engines.record import ENGINE_FORMAT, EngineSet, engine_json, read_engine_set
from edgeformer.engines.wanted import (
    Asked,
    Wanted,
    check_precision,
    half_tensors,
    shapes,
    wanted,
)
from edgeformer.errors import EdgeformerError

Say = Callable[[str], None]


class Built(NamedTuple):
    """The set that is there now, and whether this call made it."""

    engines: EngineSet
    is_new: bool


def build_engines(
    bundle: Bundle,
    here: Here,
    asked: Asked,
    layouts: Sequence[str],
    available: int,
    force: bool,
    say: Say,
) -> Built:
    """Build the first of `layouts` that fits, or report the set that is there already.

    `available`: bytes of memory that may be used. `force` builds what is refused or there.
    """
    unknown = set(asked.tactics) - set(here.tactics)
    if unknown:
        raise EdgeformerError(
            f"--tactics: TensorRT {here.tensorrt} has no source {min(unknown)}; "
            f"it has {', '.join(here.tactics)}"
        )
    typed = check_precision(bundle.manifest, here, asked.precision, force)
    plan = fit.plan_for(bundle, asked.precision, layouts, available)
    choices = [wanted(bundle, here, asked, layout, typed) for layout in layouts]
    choices.sort(key=lambda choice: choice.layout != plan.case.layout)
    folder = store.engines_folder(bundle)
    with store.only_builder(folder, say):
        store.sweep(folder, say)
        for choice in choices if not force else ():
            found = store.find(bundle, choice.key, say)
            if found is not None:
                return Built(found, False)
        if not plan.fits:
            refusal = fit.why_not(plan)
            if not force:
                raise EdgeformerError(refusal + ", or --force to try")
            say("forced: " + refusal)
        if not force:
            fit.check_disk(folder, plan)
        bundle.verify_hashes(choices[0].graphs)
        return Built(_build(bundle, here, choices[0], available, say), True)


def _build(bundle: Bundle, here: Here, found: Wanted, available: int, say: Say) -> EngineSet:
    """All plans of a set, staged, recorded and published."""
    folder, began = store.engines_folder(bundle), time.monotonic()
    older = store.same_key(folder, found.key)
    key = store.free_key(folder, found.key)
    engines, flags, peak = {}, dict(found.flags), 0
    with store.staging(folder, key) as staged:
        for kind, (tokens, rows) in found.ranges.items():
            ended, workspace = _plan_of(bundle, here, found, kind, staged, available, say)
            path = os.path.join(staged, kind + ".plan")
            engines[kind] = {
                "file": kind + ".plan",
                "bytes": os.path.getsize(path),
                "sha256": store.sha256(path),
                "tokens": tokens,
                "rows": rows,
            }
            flags[kind + "_workspace_mib"] = str(workspace)
            flags[kind + "_fp32_layers"] = str(ended.answer["done"]["pinned"])
            peak = max(peak, ended.peak)
        record = {
            "format": ENGINE_FORMAT,
            "key": key,
            "layout": found.layout,
            "precision": found.asked.precision,
            "cache_dtype": found.cache_dtype,
            "past_rows": found.asked.past_rows,
            "tensorrt": here.tensorrt,
            "device": {"name": here.name, "compute_capability": here.compute_capability},
            "graphs": found.graphs,
            "flags": flags,
            "engines": engines,
            "build": {
                "seconds": round(time.monotonic() - began, 1),
                "peak_bytes": peak,
                "edgeformer": __version__,
            },
        }
        store.publish(staged, folder, key, engine_json(record))
    with store.disk_errors(folder):
        for name in older:
            store.remove(os.path.join(folder, name))
    return read_engine_set(bundle, key)


def _plan_of(
    bundle: Bundle, here: Here, found: Wanted, kind: str, staged: str, available: int, say: Say
) -> Tuple[Ended, int]:
    """One plan, with the first workspace that works; how that went."""
    folder, graph = os.path.dirname(staged), bundle.manifest.graphs[kind]
    # kernels are timed for one GPU and one release; TensorRT refuses another's
    timings = os.path.join(folder, _plain(f"timings-{here.name}-{here.tensorrt}.cache"))
    new_timings = os.path.join(staged, "timings")
    left: List[int] = list(found.asked.workspaces)
    tried: List[int] = []
    while True:
        tried.append(left.pop(0))
        job = Job(
            graph=bundle.file(graph.file),
            plan=os.path.join(staged, kind + ".plan"),
            precision=found.asked.precision,
            typed=found.typed,
            shapes=shapes(graph, found, kind),
            outputs=[spec.name for spec in graph.outputs],
            half=half_tensors(graph, found),
            pinned=FP32_PREFIX,
            workspace=tried[-1],
            tactics=list(found.asked.tactics),
            timings=timings,
            new_timings=new_timings,
        )
        what = f"{graph.file}, workspace {tried[-1]} MiB"
        ended = run_child(dict(job._asdict(), do="build"), say, what)
        if "done" in ended.answer:
            with store.disk_errors(timings):
                if os.path.isfile(new_timings):
                    os.replace(new_timings, timings)
            say(f"  {graph.file}: done in {ended.seconds:.0f} s")
            return ended, tried[-1]
        left = _next_workspaces(kind_of(ended), tried[-1], left)
        if not left:
            raise explained(ended, Tried(graph.file, tried, available))
        why = {"workspace": "no kernel fits in it", "killed": "the builder was killed"}
        say(f"  {graph.file}: {why.get(kind_of(ended), 'memory ran out')}; next {left[0]} MiB")


def _next_workspaces(kind: str, last: int, left: Sequence[int]) -> List[int]:
    """Larger ones where no kernel fitted, smaller ones where memory ran out, else none."""
    if kind == "workspace":
        return [size for size in left if size > last]
    return [size for size in left if size < last] if kind in ("memory", "killed") else []


def _plain(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in ".-" else "_" for letter in name)
