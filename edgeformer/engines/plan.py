"""Does a bundle fit a board's memory, and if not, which one change makes it fit?"""

from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple

from edgeformer.bundle import Bundle
from edgeformer.engines.needs import LAYOUTS, Case, Needs, Sizes
from edgeformer.engines.record import engine_sets

STEP = 64  # rows; capacities are searched in buckets
LEAST_CHUNK = 8

Fits = Callable[[Needs], bool]


class Change(NamedTuple):
    """A case that fits where the first one did not."""

    what: str
    case: Case
    needs: Needs


class Plan(NamedTuple):
    """What was looked at. `fits_*` are about `case`; `change` is None if it fits or nothing does.

    `change_is_for`: "both", or "running" where no change makes the build fit too.
    """

    case: Case
    layouts: Dict[str, Needs]  # each layout with nothing else changed
    available: int
    fits_running: bool
    fits_building: bool
    change: Optional[Change]
    change_is_for: str
    built: Dict[str, int]  # layout -> bytes of plans that are there already

    @property
    def needs(self) -> Needs:
        return self.layouts[self.case.layout]

    @property
    def fits(self) -> bool:
        return self.fits_running and self.fits_building

    @property
    def commands(self) -> List[str]:
        """What makes the change: another export, a build with another layout."""
        if self.change is None:
            return []
        case, found = self.change.case, []
        changed = [
            f" --{name} {getattr(case, name)}"
            for name in ("capacity", "chunk", "embedding")
            if getattr(case, name) != getattr(self.case, name)
        ]
        if changed:
            found.append("python -m edgeformer.export RECIPE.toml -o BUNDLE" + "".join(changed))
        if case.layout != self.case.layout:
            found.append(f"python -m edgeformer build BUNDLE --layout {case.layout}")
        return found


def make_plan(
    bundle: Bundle,
    case: Case,
    available: int,
    layouts: Tuple[str, ...] = LAYOUTS,
    count_built: bool = True,
) -> Plan:
    """`layouts`: which may be used, the preferred one first; `case.layout` is set from them.

    Engines that a bundle holds already are counted by their real size and need no building,
    unless they are to be built again (`count_built` false).
    """
    sizes = Sizes(bundle)
    built = _built(bundle, case) if count_built and case.layout != "onnxruntime" else {}
    found = {name: sizes.needs(case._replace(layout=name)) for name in layouts}
    for name in set(built) & set(found):
        found[name] = _with_plans(found[name], built[name])

    def runs(needs: Needs) -> bool:
        return needs.largest <= available

    def both(needs: Needs) -> bool:
        return runs(needs) and needs.building <= available

    best = [name for name in layouts if both(found[name])] or [
        name for name in layouts if runs(found[name])
    ]
    # where nothing fits, changes start from the layout that needs least
    chosen = best[0] if best else min(layouts, key=lambda name: found[name].largest)
    case = case._replace(layout=chosen)
    needs, change, purpose = found[chosen], None, ""
    if not both(needs):
        change, purpose = _first(sizes, case, both), "both"
        if change is None and not runs(needs):
            change, purpose = _first(sizes, case, runs), "running"
    return Plan(
        case,
        found,
        available,
        runs(needs),
        needs.building <= available,
        change,
        purpose if change else "",
        {name: built[name] for name in built if name in found},
    )


def _first(sizes: Sizes, case: Case, fits: Fits) -> Optional[Change]:
    """The first single change that is enough; then all of them together."""
    shorter = _shorter(sizes, case, fits)
    candidates = [] if shorter is None else [shorter]
    candidates += list(_single(sizes, case))
    for what, other in candidates:
        needs = sizes.needs(other)
        if fits(needs):
            return Change(what, other, needs)
    every, words = case, []
    for what, other in _single(sizes, case):
        every, words = _merged(case, every, other), words + [what]
    least = every._replace(capacity=min(every.capacity, STEP))
    least = least._replace(chunk=min(least.chunk, least.capacity))
    for what, other in (("", every), (f"capacity {least.capacity}", least)):
        needs = sizes.needs(other)
        if fits(needs):
            kept = [word for word in words if not word.startswith("chunk")]
            kept += [f"chunk {other.chunk}"] if other.chunk != case.chunk else []
            return Change(" and ".join([what] * bool(what) + kept), other, needs)
    return None


def _single(sizes: Sizes, case: Case) -> Iterator[Tuple[str, Case]]:
    if case.layout == "split":
        yield "layout shared: one engine", case._replace(layout="shared")
    if case.layout != "onnxruntime" and case.embedding == "graph" and sizes.table():
        twice = ", a tied table is held twice" if sizes.tied() else ""
        yield f"host embedding{twice}", case._replace(embedding="host")
    chunk = case.chunk // 2
    while chunk >= LEAST_CHUNK:
        yield f"chunk {chunk}", case._replace(chunk=chunk)
        chunk //= 2


def _merged(base: Case, every: Case, other: Case) -> Case:
    """`every` with what `other` changes of `base`."""
    changed = {key: value for key, value in other._asdict().items() if value != getattr(base, key)}
    return every._replace(**changed)


def _shorter(sizes: Sizes, case: Case, fits: Fits) -> Optional[Tuple[str, Case]]:
    """The longest capacity, in whole buckets, that fits: more rows never need less."""
    low, high = 0, (case.capacity - 1) // STEP
    while low < high:
        middle = (low + high + 1) // 2
        if fits(sizes.needs(_with_capacity(case, middle * STEP))):
            low = middle
        else:
            high = middle - 1
    if low == 0:
        return None
    return f"capacity {low * STEP}", _with_capacity(case, low * STEP)


def _with_capacity(case: Case, capacity: int) -> Case:
    return case._replace(capacity=capacity, chunk=min(case.chunk, capacity))


def _built(bundle: Bundle, case: Case) -> Dict[str, int]:
    """Bytes of plans by layout, of sets that were built for this precision and capacity."""
    usable, _ = engine_sets(bundle)
    found: Dict[str, int] = {}
    for entry in usable:
        if entry.precision == case.precision and entry.past_rows[-1] >= case.capacity:
            found[entry.layout] = sum(engine.bytes for engine in entry.engines.values())
    return found


def _with_plans(needs: Needs, plans: int) -> Needs:
    weights = min(needs.weights, plans)
    return needs._replace(weights=weights, plan=plans - weights, building=0)


def as_json(plan: Plan) -> Dict[str, Any]:
    """Plain values; every number of bytes is predicted, but for plans that are there already."""
    change: Any = None
    if plan.change is not None:
        change = {
            "what": plan.change.what,
            "makes_fit": plan.change_is_for,
            "case": dict(plan.change.case._asdict()),
            "bytes": plan.change.needs.as_json(),
            "commands": plan.commands,
        }
    built: List[str] = sorted(plan.built)
    return {
        "predicted": True,
        "case": dict(plan.case._asdict()),
        "available": plan.available,
        "fits": plan.fits,
        "fits_running": plan.fits_running,
        "fits_building": plan.fits_building,
        "layouts": {name: needs.as_json() for name, needs in plan.layouts.items()},
        "built": built,
        "change": change,
    }
