"""All cases of a round at the same time, each in a fresh process, decoding by turns.

Rounds one after the other lie seconds apart, and a machine that is shared drifts by more than a
few per cent meanwhile. Here blocks of the cases lie tens of milliseconds apart. Everything but
decoding is still done one after the other, while the others wait for a word from us.
"""

import math
from contextlib import ExitStack
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

from edgeformer.bench.cases import Case, Settings
from edgeformer.bench.orders import balanced
from edgeformer.bench.rounds import (
    INTERRUPTED,
    NOTHING,
    Measured,
    Progress,
    Say,
    Taken,
    job_of,
    with_round,
)
from edgeformer.bench.turn import Child, Turn
from edgeformer.device.monitor import Monitor

BLOCKS = 15  # of each case in a round, at least
TRIAL = 24  # tokens of the first block of all, which tells how long the others shall be
KEPT, KEPT_S, MOST_KEPT = 8, 0.015, 4096  # of a block, in tokens and seconds of the fastest case


class Cut(NamedTuple):
    """How decoding is cut into blocks."""

    block_tokens: int
    dropped_tokens: int  # the first ones of each: another case has just had caches and CPU


def cut_for(token_s: float) -> Cut:
    """For the fastest case's seconds of a token. A third of each block is dropped."""
    kept = min(max(KEPT, math.ceil(KEPT_S / max(token_s, 1e-9))), MOST_KEPT)
    dropped = math.ceil(kept / 2)
    return Cut(kept + dropped, dropped)


def take_side_by_side(
    cases: Sequence[Case], settings: Settings, monitor: Monitor, say: Say
) -> Taken:
    """Measure. Ctrl-C ends it and keeps the rounds that are whole."""
    found: List[Measured] = [NOTHING for _ in cases]
    progress = Progress(len(cases) * settings.rounds, say)
    cut: Optional[Cut] = None
    interrupted = False
    try:
        for index in range(settings.rounds):
            alive = [place for place, case in enumerate(found) if case.error is None]
            if not alive:
                break
            progress.done += len(cases) - len(alive)
            with ExitStack() as stack:
                together = _Together(stack, cases, settings, monitor)
                stack.callback(monitor.processes.clear)  # the numbers may become others'
                ended = together.round(found, _places(alive, index), cut)
            cut = cut or together.cut
            for place, case in ended.items():  # all at once: a round is whole or it is none
                found[place] = case
            for place in ended:
                progress.turn(index, settings.rounds, cases[place], found[place])
    except KeyboardInterrupt:
        say(INTERRUPTED)
        interrupted = True
    finally:
        monitor.case = monitor.phase = None
    return Taken(found, interrupted, _told(cut, len(cases)))


def _told(cut: Optional[Cut], cases: int) -> Optional[Dict[str, int]]:
    if cut is None:
        return None
    return dict(cut._asdict(), blocks=len(balanced(cases, BLOCKS)))


def _places(alive: Sequence[int], index: int) -> List[int]:
    """Who is the first of this round, the second, ...: each case is each of them equally often.

    The one of three that loads last has decoded 1 % faster than it did as another one.
    """
    rows = balanced(len(alive))
    return [alive[place] for place in rows[index % len(rows)]]


class _Together:
    """The processes of one round. `cut`: what it began with, or has found out."""

    def __init__(
        self, stack: ExitStack, cases: Sequence[Case], settings: Settings, monitor: Monitor
    ) -> None:
        self.cut: Optional[Cut] = None
        self._stack, self._cases, self._settings = stack, cases, settings
        self._monitor = monitor
        self._children: Dict[int, Child] = {}
        self._ended: Dict[int, Turn] = {}

    def round(
        self, known: Sequence[Measured], places: Sequence[int], cut: Optional[Cut]
    ) -> Dict[int, Measured]:
        """One round more of these cases, or the end of them."""
        monitor, begun, found = self._monitor, {}, {}
        order = sum(len(case.rounds) for case in known)
        for place in places:
            begun[place] = monitor.now()
            self._start(place, golden=not known[place].rounds)
        self._decode([place for place in places if place not in self._ended], cut)
        for place in places:
            self._finish(place)
            whole = (begun[place], monitor.now())
            turn = self._ended[place]
            # Power and load would be those of all cases.
            found[place] = with_round(known[place], turn, order, monitor, whole, None)
            order += turn.done is not None
        return found

    def _start(self, place: int, golden: bool) -> None:
        """Load and measure up to decoding."""
        self._monitor.case, self._monitor.phase = self._cases[place].name, "start"
        job = job_of(self._cases[place], self._settings, golden)
        child = self._stack.enter_context(Child(job, self._on_phase))
        self._children[place] = child
        self._monitor.processes[self._cases[place].name] = child.process
        self._heard(place, child.hear())

    def _decode(self, places: Sequence[int], cut: Optional[Cut]) -> None:
        """Once without a figure, the first case at last, so that it follows itself; then in turns
        by a balanced order."""
        tokens = TRIAL if cut is None else cut.block_tokens
        seconds = [self._block(place, Cut(tokens, tokens)) for place in reversed(places)]
        known = [value for value in seconds if value is not None]
        if cut is None and known:
            cut = cut_for(min(known))
        self.cut = cut
        if cut is None or not places:
            return  # all have ended before
        for row in balanced(len(places), BLOCKS):
            for index in row:
                self._block(places[index], cut)

    def _block(self, place: int, cut: Cut) -> Optional[float]:
        """Seconds of a token of it; None: the case has ended."""
        if place in self._ended:
            return None
        self._monitor.case, self._monitor.phase = self._cases[place].name, "decode"
        child = self._children[place]
        child.say({"tokens": cut.block_tokens, "dropped": cut.dropped_tokens})
        return self._heard(place, child.hear())

    def _finish(self, place: int) -> None:
        """What comes after decoding."""
        if place not in self._ended:
            self._monitor.case = self._cases[place].name
            self._children[place].say({"tokens": 0})
            self._ended[place] = self._children[place].end()

    def _heard(self, place: int, message: Optional[Dict[str, Any]]) -> Optional[float]:
        if message is not None and "waits" in message:
            seconds: Optional[float] = message["waits"]
            return seconds
        self._ended[place] = self._children[place].end()
        return None

    def _on_phase(self, name: str) -> None:
        self._monitor.phase = name
