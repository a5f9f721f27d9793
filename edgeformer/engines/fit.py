"""Does it fit to build here? The fit plan's answer, as what a builder needs of it."""

import os
from typing import Sequence

from edgeformer.bundle import Bundle
from edgeformer.engines.needs import Case
from edgeformer.engines.plan import Plan, make_plan
from edgeformer.errors import EdgeformerError

MIB = 1 << 20


def plan_for(bundle: Bundle, precision: str, layouts: Sequence[str], available: int) -> Plan:
    """The plan of a new build; engines that are there already make it no cheaper."""
    manifest = bundle.manifest
    chunk = min(manifest.chunk, manifest.capacity)
    # an INT8 engine is counted as FP16, which is more
    counted = "fp32" if precision == "fp32" else "fp16"
    case = Case(layouts[0], counted, manifest.capacity, chunk)
    return make_plan(bundle, case, available, tuple(layouts), count_built=False)


def why_not(plan: Plan) -> str:
    """What a plan that does not fit is short of, and the one change that makes it fit."""
    needs, free = plan.needs, plan.available / MIB
    what, size = ("be built", needs.building) if plan.fits_running else ("run", needs.largest)
    text = (
        f"layout {plan.case.layout} needs {size / MIB:.0f} MiB to {what} (predicted) and "
        f"{free:.0f} MiB are free"
    )
    change = plan.change
    if change is None or plan.change_is_for != "both":
        return text + (
            "; no single change makes it fit: stop the desktop, add swap, or use a smaller model"
        )
    case, words = change.case, []
    if case.layout != plan.case.layout:
        words.append(f"--layout {case.layout}")
    exported = [
        f"--{name} {getattr(case, name)}"
        for name in ("capacity", "chunk")
        if getattr(case, name) != getattr(plan.case, name)
    ]
    if case.embedding != plan.case.embedding:
        exported.append("--embedding host")
    if exported:
        words.append("a bundle that was exported with " + " ".join(exported))
    return text + f"; it fits with {' and '.join(words)}"


def check_disk(folder: str, plan: Plan) -> None:
    """Refuse a build whose plans the disk cannot hold."""
    needed = plan.needs.weights + plan.needs.plan
    found = os.statvfs(folder)
    free = found.f_bavail * found.f_frsize
    if free < needed:
        raise EdgeformerError(
            f"the engines need about {needed / MIB:.0f} MiB on the disk of {folder}, "
            f"{free / MIB:.0f} MiB are free; make room there (build --prune removes engines that "
            "cannot be loaded), or --force to try"
        )
