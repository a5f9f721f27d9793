"""Every case in every round, in alternating order: A B C, C B A, A B C ...

A machine that gets slower gets slower for all cases, and none has always the same neighbour.
"""

from time import perf_counter
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from edgeformer.bench.cases import Case, Settings
from edgeformer.bench.statistics import median
from edgeformer.bench.turn import Phases, Turn, take_turn
from edgeformer.device.monitor import Monitor

Say = Callable[[str], None]
Span = Tuple[float, float]  # from and to, in seconds of the monitor
INTERRUPTED = "interrupted: the rounds that are whole are kept"


class Measured(NamedTuple):
    """What one case gave. `rounds` are those of the document; the first has index 0 in all cases,
    and a case that died has fewer."""

    rounds: List[Dict[str, Any]]
    about: Dict[str, Any]  # what the child told of itself; {} before the first round ended
    error: Optional[str]
    refused: bool  # the error says what the user must change


NOTHING = Measured([], {}, None, False)


class Taken(NamedTuple):
    """All cases. `interrupted`: somebody pressed Ctrl-C."""

    cases: List[Measured]
    interrupted: bool
    side_by_side: Optional[Dict[str, int]] = None  # how blocks were cut, as the document has it


def take_rounds(cases: Sequence[Case], settings: Settings, monitor: Monitor, say: Say) -> Taken:
    """Measure. Ctrl-C ends it and keeps the rounds that are whole."""
    found = [NOTHING for _ in cases]
    progress = Progress(len(cases) * settings.rounds, say)
    try:
        for index in range(settings.rounds):
            places = range(len(cases))
            for place in places if index % 2 == 0 else reversed(places):
                if found[place].error is None:
                    order = sum(len(case.rounds) for case in found)
                    found[place] = _with_turn(found[place], cases[place], settings, monitor, order)
                    progress.turn(index, settings.rounds, cases[place], found[place])
                else:
                    progress.done += 1
    except KeyboardInterrupt:
        say(INTERRUPTED)
        return Taken(found, True)
    finally:
        monitor.case = monitor.phase = None
    return Taken(found, False)


def _with_turn(
    known: Measured, case: Case, settings: Settings, monitor: Monitor, order: int
) -> Measured:
    """One round more of a case, or the end of it."""

    def on_phase(name: str) -> None:
        monitor.phase = name

    def on_start(process: int) -> None:
        monitor.processes[case.name] = process

    monitor.case, monitor.phase = case.name, "start"
    at = monitor.now()
    turn = take_turn(job_of(case, settings, golden=not known.rounds), on_phase, on_start)
    end = monitor.now()
    del monitor.processes[case.name]  # the number may become another process's
    decode = None
    if turn.done is not None:
        stop = _begin(turn.phases, "rows", monitor, end)
        decode = (stop - sum(turn.done["round"]["token_s"]), stop)
    return with_round(known, turn, order, monitor, (at, end), decode)


def with_round(
    known: Measured,
    turn: Turn,
    order: int,
    monitor: Monitor,
    whole: Span,
    decode: Optional[Span],
) -> Measured:
    """A case with the round that a child did, or with why it did none. `decode`: when it decoded,
    and nobody else: power and load are of that time alone, memory and heat of the `whole`."""
    if turn.done is None:
        where = f"round {len(known.rounds) + 1}: {turn.error}"
        return known._replace(error=turn.error if turn.refused else where, refused=turn.refused)
    made = dict(turn.done["round"], order=order, at_s=round(whole[0], 4))
    around, alone = monitor.slice(*whole), monitor.slice(*decode) if decode else None
    energy = alone.energy_j if alone else None
    made.update(
        energy_j_per_token=None if energy is None else energy / len(made["token_s"]),
        power_w=alone.power_w if alone else None,
        available_low_bytes=around.available_low_bytes,
        gpu_load=alone.gpu_load if alone else None,
        temperature_c=around.temperature_c,
        throttled=around.throttled,
        **monitor.clocks(*(decode or whole)),
    )
    return known._replace(rounds=known.rounds + [made], about=known.about or turn.done["about"])


def _begin(phases: Phases, name: str, monitor: Monitor, otherwise: float) -> float:
    return next((monitor.at(at) for phase, at in phases if phase == name), otherwise)


def job_of(case: Case, settings: Settings, golden: bool) -> Dict[str, Any]:
    """What a child is told to do. `golden`: compare the golden run, too."""
    return {
        "path": case.path,
        "backend": case.backend,
        "threads": case.threads,
        "prompt_tokens": settings.prompt_tokens,
        "new_tokens": settings.new_tokens,
        "rows": [rows for rows in settings.rows if rows < case.capacity],
        "seed": settings.seed,
        "golden": golden,
        "busy": case.busy,
        "engines": case.engines,
        "waits": settings.side_by_side,
    }


class Progress:
    """A line for each round of each case."""

    def __init__(self, total: int, say: Say) -> None:
        self.done = 0
        self._total = total
        self._say = say
        self._began = perf_counter()

    def turn(self, index: int, rounds: int, case: Case, found: Measured) -> None:
        self.done += 1
        seconds = perf_counter() - self._began
        left = seconds / self.done * (self._total - self.done)
        if found.error is not None:
            said = f"given up: {found.error}"
        else:
            said = f"{1000 * median(found.rounds[-1]['token_s']):.3g} ms a token"
        about = f"{seconds:.0f} s" + (f", about {left:.0f} s left" if left >= 1 else "")
        self._say(f"round {index + 1} of {rounds}, {case.name}: {said} ({about})")
