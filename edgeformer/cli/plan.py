"""`plan`: will a bundle fit a board, before anything is built?"""

import argparse
import json
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from edgeformer.cli import console
from edgeformer.contract import CPU_ONLY
from edgeformer.errors import EdgeformerError

MIB = 1 << 20
ROWS = (
    ("weights", "weights"),
    ("plan", "engine beside its weights"),
    ("cache", "cache"),
    ("new_rows", "new rows of a step"),
    ("activations", "activations (estimate)"),
    ("logits", "logits"),
    ("libraries", "CUDA, cuBLAS, cuDNN, process"),
    ("running", "running"),
    ("largest", "running, while it is loaded"),
    ("building", "building, the largest engine"),
)


def parser() -> argparse.ArgumentParser:
    made = console.parser(
        "plan",
        "Predict the memory that a bundle needs to run and to be built, on this machine or on a "
        "board that is elsewhere. Exit 0: it fits. 1: it does not, and what makes it fit. With "
        "--speed: what a token reads and computes, what the machine allows, tokens/s.",
    )
    add = made.add_argument
    add("--target", metavar="T", help="such as jetson-nano, jetson-nano-2gb, jetson-orin-nano, cpu")
    add("--memory", type=int, metavar="MB", help="free memory, in place of what is free or known")
    add("--layout", choices=("split", "shared"), help="default: split if it fits, else shared")
    add("--precision", metavar="P", help="fp16, fp32 or int8 (default: the target's fastest)")
    add("--capacity", type=int, metavar="N", help="cache rows (default: the bundle's)")
    add("--chunk", type=int, metavar="N", help="tokens of a prefill step (default: the bundle's)")
    add("--speed", action="store_true", help="predict tokens/s in place of memory")
    add("--rows", type=int, metavar="N", help="--speed: cached rows in use (default 64)")
    add("--threads", type=int, metavar="N", help="--speed: CPU threads (default: the fast cores)")
    add("--no-run", action="store_true", help="--speed: predict only, load no model")
    add("--json", action="store_true", help="bytes and seconds, as one JSON document")
    return made


class Place(NamedTuple):
    """Where the bundle would run."""

    target: Any  # targets.Target
    name: str
    available: int
    told: str


def run(arguments: argparse.Namespace) -> int:
    from edgeformer.bundle import Bundle
    from edgeformer.engines import plan as plans

    bundle = Bundle.open(arguments.bundle)
    place = _place(arguments, bundle.manifest.target)
    case, layouts = _case(arguments, bundle.manifest, place)
    if arguments.speed:
        from edgeformer.cli import plan_speed

        return plan_speed.run(arguments, bundle, place, case)
    for option in ("rows", "threads", "no_run"):
        if getattr(arguments, option):
            raise EdgeformerError(f"--{option.replace('_', '-')} belongs to --speed; add --speed")
    plan = plans.make_plan(bundle, case, place.available, layouts)
    if arguments.json:
        document = dict(plans.as_json(plan), target=place.name, memory=place.told)
        print(json.dumps(document, indent=1))
    else:
        console.TextOut().write(_report(bundle.manifest.name, place, plan))
    return 0 if plan.fits else 1


def _place(arguments: argparse.Namespace, bundle_target: str) -> Place:
    """--memory, else what is free here (no --target, or this is that board), else the board's."""
    from edgeformer import targets

    target, size = targets.target_named(arguments.target or bundle_target)
    name = f"{target.name}-{size}" if size else target.name
    if arguments.memory is not None:
        if not 1 <= arguments.memory <= 1 << 24:
            raise EdgeformerError(f"--memory is {arguments.memory}; say 1 to {1 << 24} MB")
        return Place(target, name, arguments.memory * MIB, f"{arguments.memory} MiB, as told")
    here = targets.this_board()
    if arguments.target is None or here == target.name or not size:
        available = targets.memory_available()
        where = f"on this {target.title}" if here == target.name else "on this machine"
        # what the board is short of is not known here, so its name says no size
        return Place(target, target.name, available, f"{available // MIB} MiB available {where}")
    board = target.boards[size]
    free = int(board.memory.value - board.used_headless.value)
    desktop = int(board.memory.value - board.used_desktop.value)
    told = f"{free} of {board.memory.value} MiB without a desktop; about {desktop} with one"
    return Place(target, name, free * MIB, told)


def _case(arguments: argparse.Namespace, manifest: Any, place: Place) -> Tuple[Any, Any]:
    """What was asked for, checked, and the layouts to choose from."""
    from edgeformer.engines import needs

    target = place.target
    onnxruntime = target.compute_capability is None
    stored = manifest.precision
    fastest = stored if onnxruntime else {"int8-qdq": "int8"}.get(stored, "fp16")
    precision = arguments.precision or fastest
    if precision in target.refused:
        raise EdgeformerError(f"--precision {precision}: {target.refused[precision]}")
    if precision not in target.precisions and not (onnxruntime and precision == stored):
        known = ", ".join(target.precisions)
        raise EdgeformerError(f"--precision is {precision[:40]!r}; {target.name} has {known}")
    _check_precision(precision, manifest, target)
    most = manifest.model["max_positions"]
    capacity = _size("--capacity", arguments.capacity, manifest.capacity, most)
    chunk = _size("--chunk", arguments.chunk, min(manifest.chunk, capacity), capacity)
    embedding = "graph" if manifest.embedding is None else "host"
    if onnxruntime:
        if arguments.layout:
            raise EdgeformerError(f"--layout is about engines; target {target.name} has none")
        return needs.Case("onnxruntime", precision, capacity, chunk, embedding), ("onnxruntime",)
    layouts = (arguments.layout,) if arguments.layout else needs.LAYOUTS
    return needs.Case(layouts[0], precision, capacity, chunk, embedding), layouts


def _check_precision(precision: str, manifest: Any, target: Any) -> None:
    """Which engines come from which graphs, and which TensorRT takes them."""
    stored = manifest.precision
    export = "export it again: python -m edgeformer.export RECIPE.toml -o BUNDLE --precision "
    ours = stored in CPU_ONLY or manifest.dialect == "ort"
    if ours and target.compute_capability is not None:
        raise EdgeformerError(
            f"this bundle holds {stored} graphs, which ONNX Runtime runs on a CPU and no TensorRT "
            "reads; plan it with --target cpu (and --memory MB for another machine), or "
            f"{export}fp32 --target {target.name}"
        )
    if precision == "int8" and stored != "int8-qdq":
        raise EdgeformerError(
            f"--precision int8 needs a bundle of quantized graphs; this one holds {stored}, from "
            f"which fp16 engines are built: use fp16, or {export}int8-qdq"
        )
    if target.compute_capability is None:
        if precision != stored:
            raise EdgeformerError(
                f"onnxruntime runs graphs as they are, here {stored}; {export}{precision}"
            )
        return
    if stored == "int8-qdq" and precision != "int8":
        raise EdgeformerError(
            f"--precision {precision} needs a bundle of fp32 graphs; this one holds int8-qdq, from "
            f"which int8 engines are built: use int8, or {export}fp32"
        )
    if stored == "fp16" and precision != "fp16":
        raise EdgeformerError(
            f"--precision {precision} needs a bundle of fp32 graphs; this one holds fp16, from "
            f"which fp16 engines are built: use fp16, or {export}fp32"
        )
    typed = [release for release in target.releases if int(release.tensorrt.split(".")[0]) >= 10]
    if stored == "fp16" and not typed:
        raise EdgeformerError(
            f"this bundle holds fp16 graphs, of which TensorRT 10 and newer build engines; "
            f"{target.title} ends at {target.releases[-1].tensorrt}, which builds fp16 engines "
            f"from fp32 graphs: {export}fp32"
        )


def _size(option: str, asked: Optional[int], default: int, most: int) -> int:
    value = default if asked is None else asked
    if not 1 <= value <= most:
        raise EdgeformerError(f"{option} is {value}; it must be 1 to {most} for this bundle")
    return value


def _report(name: str, place: Place, plan: Any) -> str:
    case = plan.case
    lines = [
        f"{name} on {place.name}, {case.precision}, capacity {case.capacity}, chunk {case.chunk}",
        f"free: {place.told}",
        "",
    ]
    lines += _table(plan)
    if plan.built:
        lines.append(f"engines that are built: {', '.join(sorted(plan.built))}; real sizes")
    lines += ["all other numbers are predicted: no engine was built or run for them", ""]
    lines += _verdict(place, plan)
    return "\n".join(lines) + "\n"


def _table(plan: Any) -> List[str]:
    columns: Dict[str, Dict[str, int]] = {
        name: needs.as_json() for name, needs in plan.layouts.items()
    }
    lines = ["{:30}".format("MiB") + "".join(f"{name:>13}" for name in columns)]
    for key, label in ROWS:
        if key == "libraries" and "onnxruntime" in columns:
            label = "Python, onnxruntime"
        if any(column[key] for column in columns.values()):
            cells = "".join(f"{column[key] / MIB:13.1f}" for column in columns.values())
            lines.append(f"{label:30}{cells}")
    return lines


def _verdict(place: Place, plan: Any) -> List[str]:
    needs, free = plan.needs, plan.available / MIB
    layout = f"{plan.case.layout}: " if len(plan.layouts) > 1 else ""
    lines = []
    for what, size, fits in (
        ("running", needs.largest, plan.fits_running),
        ("building", needs.building, plan.fits_building),
    ):
        if size:
            word = "fits" if fits else "does not fit"
            lines.append(f"{layout}{what} {word}: {size / MIB:.0f} of {free:.0f} MiB")
    change = plan.change
    if change is not None:
        what = "it fits" if plan.change_is_for == "both" else "running fits"
        lines.append(
            f"with {change.what} {what}: running {change.needs.largest / MIB:.0f}"
            + (f", building {change.needs.building / MIB:.0f}" if change.needs.building else "")
            + f" of {free:.0f} MiB"
        )
        lines += ["  " + command for command in plan.commands]
    elif not plan.fits_running:
        lines.append("no capacity, layout, embedding or chunk makes it fit: use a smaller model")
    if not plan.fits_building and (change is None or plan.change_is_for != "both"):
        lines.append(
            "to build: stop the desktop (sudo systemctl isolate multi-user.target) and add swap; "
            "swap serves the parser and the builder, not the GPU"
        )
    return lines
