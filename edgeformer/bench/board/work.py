"""Which parts a report has, in which order, and what each of them does."""

import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence

import edgeformer
from edgeformer import targets
from edgeformer.bench import conditions
from edgeformer.bench.board.child import ask
from edgeformer.bench.board.parts import Parts
from edgeformer.bench.cases import Asked, Case, model_of, settings_of
from edgeformer.bench.document import FORMAT
from edgeformer.bundle import Bundle
from edgeformer.device import board, rails
from edgeformer.engines import wanted
from edgeformer.engines.building import build_engines
from edgeformer.engines.here import Here, probe
from edgeformer.engines.record import EngineSet
from edgeformer.errors import EdgeformerError

LAYOUTS = ("split", "shared")

Say = Callable[[str], None]
Value = Dict[str, Any]


class Runs(NamedTuple):
    """One way to run a bundle: on ONNX Runtime, or on a set of engines."""

    name: str  # "ort", "fp16-split" ...
    backend: str
    engines: Optional[str]
    precision: str


def identity(bundles: Sequence[Bundle], asked: Asked) -> Value:
    """What must be the same for parts of two runs to belong to one report."""
    found = board.read_board()
    return {
        "format": FORMAT,
        "edgeformer": edgeformer.__version__,
        "commit": conditions.commit(),
        "processor": targets.processor(),
        "board": None if found is None else [found.model, found.l4t],
        "bundles": [
            [b.manifest.name, model_of(b, b.manifest.precision)["sha256"]] for b in bundles
        ],
        "settings": [_plain(value) for value in asked],
    }


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def report_of(
    bundles: Sequence[Bundle], asked: Asked, parts: Parts, command: Sequence[str], say: Say
) -> Value:
    """Every part, done now or before, put together: the document of the report."""
    environment = parts.take("environment", lambda: _environment(say))
    seconds = [environment["seconds"]]
    listed = []
    for number, bundle in enumerate(bundles, 1):
        one = _OneBundle(bundle, f"{number:02d}", asked, parts, command, say)
        listed.append(one.report(environment["value"]))
        seconds += one.seconds
    machine = environment["value"].get("machine")
    if machine is None:
        raise EdgeformerError(
            f"{environment['value'].get('error')}; remove the folder of the report and run again"
        )
    return {
        "format": FORMAT,
        "kind": "board",
        "made": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "seconds": round(sum(seconds), 3),
        "command": list(command),
        "edgeformer": edgeformer.__version__,
        "commit": conditions.commit(),
        "is_board": is_board(machine),
        "complete": all(_whole(entry) for entry in listed),
        "machine": machine,
        "gpu": environment["value"]["gpu"],
        "gpu_error": environment["value"]["gpu_error"],
        "power_source": environment["value"]["power_source"],
        "bundles": listed,
    }


def is_board(machine: Value) -> bool:
    """Whether a machine is one of our targets that have a GPU."""
    return bool(machine["board"] and machine["board"]["target"])


def _whole(entry: Value) -> bool:
    """Whether everything that can be measured of a bundle was."""
    bench = entry["bench"]
    return entry["files"]["error"] is None and bench is not None and bench["complete"]


def _environment(say: Say) -> Value:
    found: Value = {"machine": conditions.machine(), "gpu": None, "gpu_error": None}
    _, counted = rails.board_meter()
    found["power_source"] = f"INA3221, {counted}" if counted else None
    try:
        found["gpu"] = dict(probe(say)._asdict())
    except EdgeformerError as error:
        found["gpu_error"] = str(error)
    return found


class _OneBundle:
    """All parts of one bundle."""

    def __init__(
        self,
        bundle: Bundle,
        number: str,
        asked: Asked,
        parts: Parts,
        command: Sequence[str],
        say: Say,
    ) -> None:
        self._bundle, self._asked, self._parts = bundle, asked, parts
        self._command, self._say, self._number = command, say, number
        self.seconds: List[float] = []

    def report(self, environment: Value) -> Value:
        manifest = self._bundle.manifest
        files = self._take("files", self._verified)
        model = model_of(self._bundle, manifest.precision)
        entry: Value = {"model": model, "files": dict({"error": None}, **files)}
        entry.update(engines=[], checks=[], numerics=[], bench=None, bench_error=None)
        if "error" in files:
            entry["bench_error"] = "the bundle is damaged"
            return entry
        runs = [Runs("ort", "ort", None, manifest.precision)]
        if environment["gpu"] is not None:
            for precision in wanted.engines_of(manifest):
                for layout in LAYOUTS:
                    runs += self._built(Here(**environment["gpu"]), precision, layout, entry)
        for one in runs:
            self._checked(one, entry)
        bench = self._take("bench", lambda: self._measured(runs))
        entry["bench"], entry["bench_error"] = bench.get("document"), bench.get("error")
        return entry

    def _take(self, name: str, work: Callable[[], Value]) -> Value:
        found = self._parts.take(f"{self._number}-{name}", work)
        self.seconds.append(found["seconds"])
        return dict(found["value"])

    def _verified(self) -> Value:
        try:
            self._bundle.verify_hashes()
        except EdgeformerError as error:
            return {"error": str(error)}
        sizes = self._bundle.sizes()
        return {"files": len(sizes), "bytes": sum(sizes.values())}

    def _built(self, here: Here, precision: str, layout: str, entry: Value) -> List[Runs]:
        """The engines of one precision and layout, or why there are none."""
        name = f"{precision}-{layout}"
        found = self._take("engines." + name, lambda: self._engines(here, precision, layout))
        value = dict({"key": None, "error": None}, precision=precision, layout=layout)
        value.update(seconds=None, peak_bytes=None, bytes=None, cache_dtype=None)
        value.update(found)
        entry["engines"].append(value)
        return [Runs(name, "trt", value["key"], precision)] if value["key"] else []

    def _engines(self, here: Here, precision: str, layout: str) -> Value:
        capacity = self._bundle.manifest.capacity
        asked = wanted.Asked(precision, (capacity,), wanted.WORKSPACES, ())
        try:
            memory = targets.memory_available()
            built = build_engines(self._bundle, here, asked, (layout,), memory, False, self._say)
        except EdgeformerError as error:
            return {"error": str(error)}
        engines: EngineSet = built.engines
        return {
            "key": engines.key,
            "cache_dtype": engines.cache_dtype,
            "seconds": float(engines.build["seconds"]),
            "peak_bytes": int(engines.build["peak_bytes"]),
            "bytes": sum(engine.bytes for engine in engines.engines.values()),
        }

    def _checked(self, one: Runs, entry: Value) -> None:
        """The golden run, and where an engine's is wrong, which layer is."""
        job = {"path": self._bundle.path, "backend": one.backend, "engines": one.engines}
        found = self._take("check." + one.name, lambda: ask(dict(job, do="check")))
        value = {"run": one.name, "passed": None, "what": "", "precision": one.precision}
        value.update(reason=None, error=None)
        value.update(found)
        entry["checks"].append(value)
        if one.backend == "trt" and value["passed"] is not True:
            layers = self._take("numerics." + one.name, lambda: ask(dict(job, do="numerics")))
            told = {"run": one.name, "limit": None, "rows": None, "layers": []}
            told.update(logits_error=None, first_off=None, what="", error=None)
            entry["numerics"].append(dict(told, **layers))

    def _measured(self, runs: Sequence[Runs]) -> Value:
        from edgeformer.bench.measure import measure

        cases = [self._case(one) for one in runs]
        try:
            settings = settings_of(self._asked, cases)
            made = measure(cases, settings, self._command, self._say)
        except EdgeformerError as error:
            return {"error": str(error)}
        if made.interrupted:
            raise KeyboardInterrupt
        return {"document": made.document}

    def _case(self, one: Runs) -> Case:
        manifest = self._bundle.manifest
        return Case(
            name=f"{manifest.name} {one.name}",
            path=self._bundle.path,
            backend=one.backend,
            precision=one.precision,
            threads=None,
            capacity=manifest.capacity,
            model=model_of(self._bundle, one.precision),
            engines=one.engines,
        )
