"""One series: every engine in a fresh process each round, and the order turns round each time."""

import hashlib
import json
import os
import subprocess
from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple

from benchmarks.peers.engines import REFERENCE, Chosen, parse_engine
from benchmarks.peers.environments import ROOT, child_environment, last_lines
from benchmarks.peers.forms import Forms
from edgeformer.device.monitor import Monitor
from edgeformer.errors import EdgeformerError

WINDOW = 256  # tokens that quality reads at once; each begins with an empty cache
FIRST_TOKENS = 2  # times to first token that a process measures for each prompt
MOST_SECONDS = 900  # that a child may take
MOST_KL = 1.0  # nats: what is further from float32 does not compute this model


class Settings(NamedTuple):
    rounds: int
    threads: int
    prompt_tokens: List[int]
    new_tokens: int
    windows: int

    @property
    def capacity(self) -> int:
        """Rows that the longest text needs, and what quality reads."""
        return max(max(self.prompt_tokens) + self.new_tokens, WINDOW)


class ChildDied(Exception):
    """What a worker said last."""


class Case:
    """One engine at one precision, and what its processes said."""

    def __init__(self, chosen: Chosen) -> None:
        self.chosen, self.name = chosen, chosen.name
        self.error = None  # type: Any
        self.place = None  # type: Any  # of its form of the model
        self.quality = None  # type: Any
        self.tokens = {}  # type: Dict[str, List[int]]
        self.versions = {}  # type: Dict[str, str]
        self.rounds = []  # type: List[Dict[str, Any]]


class Series:
    """`monitor` must be running while the series does."""

    def __init__(
        self,
        cases: List[Case],
        forms: Forms,
        settings: Settings,
        monitor: Monitor,
        say: Callable[[str], None],
    ) -> None:
        self.cases, self.forms, self.settings, self.say = cases, forms, settings, say
        self.python, self.monitor = forms.python, monitor
        self.reference = {}  # type: Dict[str, Any]
        self.complete = False

    def run(self, probe: Callable[[], Any]) -> None:
        """All of it. Ctrl-C keeps what was measured; an engine that fails keeps its error."""
        self.prepare()
        try:
            self.measure_quality()
            self.measure_rounds(probe)
        except KeyboardInterrupt:
            self.say("interrupted: what was measured is kept")
            return
        self.complete = True

    def prepare(self) -> None:
        """Each engine's form of the model, the ids, and what float32 makes of them."""
        document = json.loads(self.forms.make("ids.json").read_text("utf-8"))
        self.text, ids = document["text"], document["ids"]
        longest = max(self.settings.prompt_tokens)
        self.prompts = {str(n): ids[:n] for n in self.settings.prompt_tokens}
        starts = range(longest, len(ids) - WINDOW + 1, WINDOW)
        self.windows = [ids[s : s + WINDOW] for s in starts][: self.settings.windows]
        if len(self.windows) < self.settings.windows:
            raise EdgeformerError(
                f"the text has {len(ids)} tokens, {longest} for the longest prompt and "
                f"{len(self.windows)} windows of {WINDOW}; ask for fewer: --windows"
            )
        for case in self.cases:
            self.say(f"{case.name}: its form of the model")
            path = case.chosen.path
            try:
                case.place = str(Path(path).resolve()) if path else self._form(case.chosen)
            except EdgeformerError as error:
                case.error = str(error)
        self._make_reference()

    def _form(self, chosen: Chosen) -> str:
        return str(self.forms.make(chosen.kind.form))

    def _make_reference(self) -> None:
        """Logits and tokens of transformers in float32, kept for the next series."""
        judge = parse_engine(REFERENCE)
        place = self._form(judge)
        wanted = json.dumps([self.prompts, self.windows, self.settings.new_tokens])
        mark = hashlib.sha256(wanted.encode()).hexdigest()[:12]
        self.logits = self.forms.folder / f"reference-{mark}.npy"
        kept = self.forms.folder / f"reference-{mark}.json"
        if not kept.exists():
            self.say(f"{REFERENCE}: logits and tokens that the others are held against")
            try:
                found = self._child(judge, place, "reference")
            except ChildDied as died:
                raise EdgeformerError(
                    f"{REFERENCE} died, nothing can be compared: {died}"
                ) from None
            kept.write_text(json.dumps(found) + "\n")
        self.reference = json.loads(kept.read_text())

    def measure_quality(self) -> None:
        for case in self._alive():
            self.say(f"{case.name}: perplexity and KL")
            try:
                case.quality = self._child(case.chosen, case.place, "quality")
            except ChildDied as died:
                case.error = str(died)

    def measure_rounds(self, probe: Callable[[], Any]) -> None:
        order = 0
        for index in range(self.settings.rounds):
            conditions = {"bandwidth_bytes_per_s": probe(), "load_average": os.getloadavg()[0]}
            alive = self._alive()
            for case in alive if index % 2 == 0 else alive[::-1]:
                at = self.monitor.now()
                self.monitor.case = case.name
                try:
                    reply = self._child(case.chosen, case.place, "time")
                except ChildDied as died:
                    case.error = str(died)
                    continue
                case.tokens, case.versions = reply["tokens"], reply["versions"]
                low = self.monitor.slice(at, self.monitor.now()).available_low_bytes
                more = dict(conditions, order=order, at_s=at, available_low_bytes=low)
                more.update(self.monitor.clocks(at, self.monitor.now()))
                case.rounds.append(self._round(reply, more))
                order += 1
                self.say(f"round {index + 1} of {self.settings.rounds}, {_told(case)}")
        self.monitor.case = None

    def _alive(self) -> List[Case]:
        return [case for case in self.cases if case.error is None]

    def _round(self, reply: Dict[str, Any], more: Dict[str, Any]) -> Dict[str, Any]:
        steps = dict(reply["token_s"])
        unknown = ("energy_j_per_token", "power_w", "gpu_load", "temperature_c", "throttled")
        kept = ("load_s", "warmup_s", "first_token_s", "loaded_rss_bytes", "peak_rss_bytes")
        return dict(
            {name: reply[name] for name in kept},
            token_s=steps.pop(str(self.settings.prompt_tokens[0])),
            rows_s=steps,
            outside_s=[],
            huge_bytes=reply["huge_bytes"],
            **dict.fromkeys(unknown),
            **more,
        )

    def _child(self, chosen: Chosen, place: str, what: str) -> Dict[str, Any]:
        settings, peer = self.settings, chosen.peer
        request = {
            "what": what,
            "model": str(place),
            "options": chosen.kind.options,
            "threads": settings.threads,
            "capacity": settings.capacity,
            "prompts": self.prompts,
            "new_tokens": settings.new_tokens,
            "first_tokens": FIRST_TOKENS,
            "windows": self.windows,
            "reference": str(self.logits),
        }
        python = self.python.python(peer.environment)
        return run_worker(python, peer.worker, request, child_environment(settings.threads))


def run_worker(
    python: str, worker: str, request: Dict[str, Any], environment: Dict[str, str]
) -> Dict[str, Any]:
    """Its one line of JSON; ChildDied with what it said last where there is none."""
    command = [python, "-m", f"benchmarks.peers.workers.{worker}"]
    try:
        child = subprocess.run(
            command,
            cwd=str(ROOT),
            env=environment,
            input=json.dumps(request).encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=MOST_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise ChildDied(f"no answer within {MOST_SECONDS} s") from None
    lines = child.stdout.splitlines()
    if child.returncode or not lines:
        said = last_lines(child.stderr.decode("utf-8", "replace"))
        raise ChildDied(f"exit status {child.returncode}: {said}")
    found = json.loads(lines[-1].decode())  # type: Dict[str, Any]
    return found


def parity(case: Case, reference: Dict[str, Any]) -> Dict[str, Any]:
    """Does it compute this model? float32: the tokens of transformers, or as likely ones; fewer
    bits: a KL that is a loss and no other model."""
    if not case.tokens or case.quality is None:
        return {"passed": None, "what": "not measured"}
    told, same = [], True
    for length, wanted in reference["tokens"].items():
        found = case.tokens[length]
        equal = next((i for i, (a, b) in enumerate(zip(found, wanted)) if a != b), len(wanted))
        told.append(f"{equal} of {len(wanted)} greedy tokens after {length}")
        # Two tokens of one likelihood: the order of a sum decides, not the model.
        same &= equal == len(wanted) or reference["margins"][length][equal] < 1e-3
    kl = case.quality["kl"]
    passed = same and kl < 1e-3 if case.chosen.kind.bits == 32 else kl < MOST_KL
    return {"passed": passed, "what": f"{'; '.join(told)}; KL {kl:.5f} nats"}


def _told(case: Case) -> str:
    steps = sorted(case.rounds[-1]["token_s"])
    return f"{case.name}: {1 / steps[len(steps) // 2]:.1f} tokens/s"
