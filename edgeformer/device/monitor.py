"""What the machine does while something else runs: sampled in the background, cut afterwards."""

import threading
from time import CLOCK_THREAD_CPUTIME_ID, clock_gettime, perf_counter
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from edgeformer.device import board, clocks, files, heat, rails
from edgeformer.device.follow import Follower, find_tegrastats
from edgeformer.device.memory import machine_memory, rss_now
from edgeformer.device.tegrastats import Reading, parse

HEAT_EVERY = 5  # samples: heat and throttling change slowly and take the most files to read
NOTHING = parse("")
GAP_S = 0.5  # seconds (or 3 intervals) without a figure: nobody knows what was between


class Slice(NamedTuple):
    """What was between two times; None where there is no sensor, or too few samples."""

    available_low_bytes: Optional[int]
    power_w: Optional[float]  # mean
    energy_j: Optional[float]
    gpu_load: Optional[float]  # mean, a share of 1
    temperature_c: Optional[float]  # the hottest
    throttled: Optional[bool]


class Monitor:
    """`with Monitor(0.1) as monitor: ...; monitor.slice(t0, t1)`.

    Times are seconds since it began: `monitor.now()`, or `monitor.at(stamp)` of another process's
    `time.perf_counter()`, which Linux counts from the same moment for all. What runs may be named
    in `monitor.case` and `monitor.phase`; samples from then on carry the names, and the memory of
    the process that `monitor.processes` has for that case.
    """

    def __init__(
        self, interval_s: float = 0.1, root: str = "/", tegrastats: Optional[str] = None
    ) -> None:
        """`tegrastats`: the program; by default the machine's own, and "" for none. It is started
        only where the kernel's files lack the power or the GPU's load."""
        self.interval_s, self.root = interval_s, root
        self.case: Optional[str] = None
        self.phase: Optional[str] = None
        self.processes: Dict[str, int] = {}  # number of each case's process
        self.samples: List[Dict[str, Any]] = []
        self.cost_s = 0.0  # CPU seconds that the samples took
        self._throttled: List[Tuple[float, bool]] = []
        self._watts, counted = rails.board_meter(root)
        self._gpu = board.gpu_load_path(root)
        self._clocks = clocks.Clocks(root)
        self._zones, self._cooling = heat.zone_paths(root), heat.cooling_paths(root)
        self._program = find_tegrastats() if tegrastats is None and root == "/" else tegrastats
        self.power_source = f"INA3221, {counted}" if counted else None
        self._follower: Optional[Follower] = None
        self._cpu: Optional[Tuple[int, int]] = None
        self._degrees: Optional[float] = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="monitor", daemon=True)
        self.began = perf_counter()

    def __enter__(self) -> "Monitor":
        self.began = perf_counter()
        if self._program and (self._watts is None or self._gpu is None):
            self._follower = Follower(self._program, self.interval_s)
            self.power_source = self.power_source or "tegrastats"
        self._thread.start()
        return self

    def __exit__(self, *error: Any) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        if self._follower:
            self._follower.stop()

    def now(self) -> float:
        """Seconds since it began."""
        return self.at(perf_counter())

    def at(self, stamp: float) -> float:
        """The same of a stamp that any process of this machine took."""
        return stamp - self.began

    def _run(self) -> None:
        turn = 0
        while True:
            began = clock_gettime(CLOCK_THREAD_CPUTIME_ID)
            self._sample(turn % HEAT_EVERY == 0)
            self.cost_s += clock_gettime(CLOCK_THREAD_CPUTIME_ID) - began
            turn += 1
            # By the clock and not by sleeping: a late sample does not make the next ones late.
            behind = self.now() - turn * self.interval_s
            if behind > self.interval_s:
                turn += int(behind / self.interval_s)
            if self._stop.wait(max(0.0, turn * self.interval_s - self.now())):
                return

    def _sample(self, with_heat: bool) -> None:
        told = (self._follower.newest() if self._follower else None) or NOTHING
        watts = self._watts() if self._watts else rails.board_watts(told.rails_w)
        at = self.now()  # the sensor's figure is of now; the rest changes slowly
        if with_heat:
            by_sensor = heat.temperatures(self._zones) or told.temperatures_c
            self._degrees = heat.hottest(by_sensor)
            slowed = heat.throttled(self._cooling, self.root)
            if slowed is not None:
                self._throttled.append((at, slowed))
        load = files.number(self._gpu) if self._gpu else None
        case = self.case
        process = self.processes.get(case) if case is not None else None
        self.samples.append(
            {
                "t_s": round(at, 4),
                "available_bytes": machine_memory(self.root).available_bytes,
                "case": case,
                "phase": self.phase,
                "power_w": watts,
                "gpu_load": told.gpu_load if load is None else load / 1000,
                "temperature_c": self._degrees,
                "cpu_load": self._cpu_load(),
                "rss_bytes": None if process is None else rss_now(process, self.root),
                **self._clock(told),
            }
        )

    def _clock(self, told: Reading) -> Dict[str, Optional[int]]:
        """By the kernel's files, and what they lack by tegrastats."""
        by_line = (clocks.median_hz(told.cores_hz), told.gpu_hz, told.memory_hz)
        by_file = self._clocks.read().items()
        return {k: line if hz is None else hz for (k, hz), line in zip(by_file, by_line)}

    def _cpu_load(self) -> Optional[float]:
        """Share of the time of all CPUs since the last sample; the first sample has none."""
        words = (files.text(self.root, "proc/stat") or "").partition("\n")[0].split()[1:9]
        if len(words) < 5 or not all(word.isdigit() for word in words):
            return None
        ticks = [int(word) for word in words]
        now = (sum(ticks) - ticks[3] - ticks[4], sum(ticks))  # busy, all; 3 and 4 are idle
        before, self._cpu = self._cpu, now
        if before is None or now[1] <= before[1]:
            return None
        return round(min(1.0, max(0.0, (now[0] - before[0]) / (now[1] - before[1]))), 4)

    def slice(self, t0: float, t1: float) -> Slice:
        """What was from t0 to t1, from the samples there are by now."""
        samples = list(self.samples)
        inside = [sample for sample in samples if t0 <= sample["t_s"] <= t1]
        energy = energy_between(
            _series(samples, "power_w"), t0, t1, max(GAP_S, 3 * self.interval_s)
        )
        loads = [value for _, value in _series(inside, "gpu_load")]
        return Slice(
            min((value for _, value in _series(inside, "available_bytes")), default=None),
            energy / (t1 - t0) if energy is not None else None,
            energy,
            sum(loads) / len(loads) if loads else None,
            max((value for _, value in _series(inside, "temperature_c")), default=None),
            self._slowed(t0, t1),
        )

    def clocks(self, t0: float, t1: float) -> Dict[str, Optional[int]]:
        """The mean of each clock from t0 to t1, Hz, under the samples' names."""
        found: Dict[str, Optional[int]] = {}
        inside = [sample for sample in list(self.samples) if t0 <= sample["t_s"] <= t1]
        for name in (clocks.CPUS, clocks.GPU, clocks.MEMORY):
            told = [value for _, value in _series(inside, name)]
            found[name] = round(sum(told) / len(told)) if told else None
        return found

    def _slowed(self, t0: float, t1: float) -> Optional[bool]:
        # Asked every few samples: a short slice has what was told just before and after it.
        slack = HEAT_EVERY * self.interval_s
        told = [slowed for at, slowed in list(self._throttled) if t0 - slack <= at <= t1 + slack]
        return any(told) if told else None


def _series(samples: List[Dict[str, Any]], key: str) -> List[Tuple[float, Any]]:
    return [(s["t_s"], s[key]) for s in samples if s[key] is not None]


def energy_between(
    power: List[Tuple[float, float]], t0: float, t1: float, gap_s: float
) -> Optional[float]:
    """Joules from t0 to t1: the trapezoids between samples (s, W), which rise in time.

    None where that would be a guess: fewer than two samples inside, or more than `gap_s` without.
    """
    inside = [point for point in power if t0 <= point[0] <= t1]
    if t1 <= t0 or len(inside) < 2:
        return None
    before = [point for point in power if point[0] < t0][-1:]
    after = [point for point in power if point[0] > t1][:1]
    points = [_edge(before, inside[0], t0, gap_s)] + inside
    points += [_edge(after, inside[-1], t1, gap_s)]
    steps = list(zip(points, points[1:]))
    if any(end[0] - start[0] > gap_s for start, end in steps):
        return None
    return sum((end[0] - start[0]) * (start[1] + end[1]) / 2 for start, end in steps)


def _edge(outside: List[Tuple[float, float]], inner: Tuple[float, float], t: float, gap_s: float):
    """The point at an edge: between the samples on both sides of it, or as the nearest one."""
    if not outside or abs(outside[0][0] - inner[0]) > gap_s:
        return (t, inner[1])
    (t_out, w_out), (t_in, w_in) = outside[0], inner
    return (t, w_out + (w_in - w_out) * (t - t_out) / (t_in - t_out))
