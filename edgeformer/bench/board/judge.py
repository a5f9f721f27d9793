"""Would a report be believed? Every reason against one, for its sender and for a maintainer.

The schema says what a report looks like. Here: that it is of a board we know, that all its parts
are of the same bundles and the same machine, that what was promised came out, and that its figures
are those of its own rounds. Nobody can see from a file that it is true; only that nobody has
changed one place of it and forgotten the others.
"""

import re
from typing import Any, Dict, Iterator, List, Sequence, Tuple

from edgeformer.bench import recompute
from edgeformer.bench.summary import comparisons
from edgeformer.device.board import JETPACK
from edgeformer.targets import TARGETS, Target

ROUNDS = 10  # the fewest that give a ratio
RELEASES = {"jetson-nano": ("32.",), "jetson-orin-nano": ("35.", "36.")}  # of L4T
STANDIN = "stand-in"
MIB = 1 << 20

Value = Dict[str, Any]


def reasons(report: Value) -> List[str]:
    """Why a report that has the form of one cannot be accepted; [] where it can."""
    found = list(_board(report)) + list(_whole(report))
    for bundle in report["bundles"]:
        name = bundle["model"]["name"]
        wrong = list(_bundle(bundle))
        if bundle["bench"] is not None:
            wrong += list(_machine(report, bundle["bench"]))
            wrong += list(_cases(bundle))
            wrong += list(_bench(bundle["bench"]))
        found += [f"{name}: {text}" for text in wrong]
    return list(dict.fromkeys(found))


def _board(report: Value) -> Iterator[str]:
    machine, gpu = report["machine"], report["gpu"]
    board = machine["board"]
    target = TARGETS.get(board["target"] or "") if board else None
    if board is None or target is None or target.compute_capability is None:
        yield f"{board['model'] if board else machine['processor']} is none of our boards"
        return
    if not report["is_board"]:
        yield f"is_board is false, and the machine is a {board['model']}"
    if machine["architecture"] != "aarch64" or "aarch64" not in machine["system"]:
        yield f"a {target.title} is aarch64 and not {machine['architecture']} ({machine['system']})"
    if not str(board["l4t"]).startswith(RELEASES[target.name]):
        yield f"a {target.title} does not run L4T {board['l4t']}"
    elif not re.fullmatch("[0-9]{1,3}([.][0-9]{1,3}){2}", board["l4t"]):
        yield f"{board['l4t']!r} is no release of L4T"
    elif board["jetpack"] != JETPACK.get(board["l4t"]):
        yield f"L4T {board['l4t']} is not JetPack {board['jetpack']}"
    sizes = [size.memory.value for size in target.boards.values()]
    if not any(0.9 * size < machine["memory_bytes"] / MIB < 1.1 * size for size in sizes):
        yield f"no {target.title} has {machine['memory_bytes'] / MIB:.0f} MiB of memory"
    if gpu is not None:
        yield from _gpu(target, gpu)


def _gpu(target: Target, gpu: Value) -> Iterator[str]:
    wanted = "{}.{}".format(*target.compute_capability or ())
    if gpu["compute_capability"] != wanted:
        yield f"a {target.title}'s GPU is {wanted} and not {gpu['compute_capability']}"
    if not any(gpu["tensorrt"].startswith(release.tensorrt) for release in target.releases):
        yield f"no JetPack of the {target.title} has TensorRT {gpu['tensorrt']}"
    if STANDIN in gpu["name"].lower():
        yield f"the GPU is called {gpu['name']}: these are the project's own tests"


def _whole(report: Value) -> Iterator[str]:
    if not report["complete"]:
        yield "it is not complete: run the same command again"
    if report["commit"] is None or report["commit"].endswith("-dirty"):
        yield (
            f"it was made with {report['commit'] or 'no commit that is known'}: measure with a "
            "clean clone, so that others can do the same"
        )
    names = [bundle["model"]["name"] for bundle in report["bundles"]]
    if len(set(names)) < len(names):
        yield "two bundles have the same name"


def _bundle(bundle: Value) -> Iterator[str]:
    if bundle["files"]["error"]:
        yield bundle["files"]["error"]
    if bundle["bench"] is None:
        yield f"nothing was measured: {bundle['bench_error']}"
    for check in bundle["checks"]:
        if check["passed"] is not True:
            said = check["error"] or check["what"]
            yield f"no speed of {check['run']}, which did not pass its check: {said}"
    if [check["run"] for check in bundle["checks"]] != _runs(bundle):
        yield "its checks are not those of ONNX Runtime and of each engine that was built"


def _runs(bundle: Value) -> List[str]:
    engines = [one for one in bundle["engines"] if one["key"] is not None]
    return ["ort"] + [f"{one['precision']}-{one['layout']}" for one in engines]


def _machine(report: Value, bench: Value) -> Iterator[str]:
    """The state may change between parts (load, packages), the machine may not."""
    one, other = report["machine"], bench["machine"]
    for key in ("processor", "architecture", "memory_bytes", "system", "python", "board"):
        if one[key] != other[key]:
            yield f"measured on another machine or in another state: {key} is {other[key]!r}"
    for key in ("edgeformer", "commit"):
        if report[key] != bench[key]:
            yield f"measured with another {key}: {bench[key]}"
    if bench["seconds"] > report["seconds"] + 1:
        yield f"measuring took {bench['seconds']} s of {report['seconds']} s for the whole report"


def _cases(bundle: Value) -> Iterator[str]:
    model, cases = bundle["model"], bundle["bench"]["cases"]
    wanted = [f"{model['name']} {run}" for run in _runs(bundle)]
    if [case["name"] for case in cases] != wanted:
        yield f"its cases are not {', '.join(wanted)}"
    precisions = [check["precision"] for check in bundle["checks"]]
    if [case["precision"] for case in cases] != precisions:
        yield f"its cases are not of the precisions that were checked: {', '.join(precisions)}"
    for case in cases:
        if case["model"]["sha256"] != model["sha256"]:
            yield f"{case['name']} is of another bundle: its manifest's sha256 differs"
        same = ("name", "weights_bytes", "files_bytes", "precision", "capacity", "chunk")
        if any(case["model"][key] != model[key] for key in same):
            yield f"{case['name']} tells another model"
        if case["parity"]["passed"] is not True:
            yield f"no speed of {case['name']}: {case['parity']['what']}"
        if case["error"] is not None:
            yield f"{case['name']}: {case['error']}"


def _bench(bench: Value) -> Iterator[str]:
    settings, cases = bench["settings"], bench["cases"]
    if bench["kind"] != "bench" or not bench["complete"]:
        yield "its measuring is not complete"
    if settings["rounds"] < ROUNDS:
        yield f"{settings['rounds']} rounds; {ROUNDS} are the fewest that give a ratio"
    unfit = [text for case in cases for text in recompute.unfit(case)]
    unfit += [f"{c['name']} tells no capacity" for c in cases if c["model"]["capacity"] is None]
    if unfit:  # nothing can be computed from it
        yield from unfit
        return
    for case in cases:
        for index, turn in enumerate(case["rounds"]):
            for text in _turn(turn, case, settings):
                yield f"{case['name']}, round {index + 1}: {text}"
    yield from recompute.findings(bench)
    yield from _order(bench)
    wanted = [_what(entry) for entry in comparisons(cases, settings["confidence"])]
    if [_what(entry) for entry in bench["comparisons"]] != wanted:
        yield "its comparisons are not those of each case against the first"
    yield from _samples(bench)


def _what(comparison: Value) -> Tuple[str, str, str]:
    return comparison["a"], comparison["b"], comparison["figure"]


def _turn(turn: Value, case: Value, settings: Value) -> Iterator[str]:
    tokens = len(turn["token_s"])
    if tokens != settings["new_tokens"] - 1 or len(turn["outside_s"]) != tokens:
        yield f"{tokens} intervals between {settings['new_tokens']} tokens"
    if sorted(turn["first_token_s"], key=int) != [str(n) for n in settings["prompt_tokens"]]:
        yield "it has other lengths of prompts than the settings"
    rows = [str(n) for n in settings["rows"] if n < case["model"]["capacity"]]
    if sorted(turn["rows_s"], key=int) != rows:
        yield "it has other numbers of rows in use than the settings"
    if any(outside > whole for outside, whole in zip(turn["outside_s"], turn["token_s"])):
        yield "more time outside the step than a token took"
    if min(turn["token_s"] + [turn["load_s"], turn["warmup_s"]]) <= 0:
        yield "something took no time"
    energy, watts = turn["energy_j_per_token"], turn["power_w"]
    if (energy is None) != (watts is None):
        yield "power and energy are told one without the other"
    elif energy is not None and watts is not None:
        joules = watts * sum(turn["token_s"])
        if abs(energy * tokens - joules) > 1e-6 * joules:
            yield "its energy is not its power times its time"


def _order(bench: Value) -> Iterator[str]:
    """Rounds alternate, each begins after the one before it has ended, and all fit in the run."""
    cases, placed = bench["cases"], []
    for place, case in enumerate(cases):
        for index, turn in enumerate(case["rounds"]):
            turned = place if index % 2 == 0 else len(cases) - 1 - place
            if turn["order"] != index * len(cases) + turned:
                yield f"{case['name']}: round {index + 1} is not where its turn is"
            placed.append((turn["at_s"], turn["order"], at_least(turn)))
    placed.sort()
    if [order for _, order, _ in placed] != sorted(order for _, order, _ in placed):
        yield "its rounds did not begin in their order"
    ends = [at + seconds for at, _, seconds in placed]
    begins = [at for at, _, _ in placed[1:]] + [bench["seconds"]]
    if any(end > begin + 0.01 for end, begin in zip(ends, begins)):
        yield "a round was not over when the next one began"


def at_least(turn: Value) -> float:
    """Seconds that a round surely took: the sum of what it timed."""
    lists = [turn["token_s"], *turn["first_token_s"].values(), *turn["rows_s"].values()]
    return float(turn["load_s"] + turn["warmup_s"] + sum(sum(times) for times in lists))


def _samples(bench: Value) -> Iterator[str]:
    times = [sample["t_s"] for sample in bench["samples"]]
    if times != sorted(times) or (times and times[-1] > bench["seconds"] + 1):
        yield "its samples are not in the order of time"
    for case in bench["cases"]:
        for index, turn in enumerate(case["rounds"]):
            seen = _seen(bench["samples"], turn)
            low = turn["available_low_bytes"]
            if seen and (low is None or min(seen) < low):
                yield f"{case['name']}, round {index + 1}: a sample was below its low water"
            if low is not None and low > bench["machine"]["memory_bytes"]:
                yield f"{case['name']}, round {index + 1}: more memory free than there is"


def _seen(samples: Sequence[Value], turn: Value) -> List[int]:
    start, end = turn["at_s"], turn["at_s"] + at_least(turn)
    inside = [s["available_bytes"] for s in samples if start <= s["t_s"] <= end]
    return [value for value in inside if value is not None]


def shown(case: Value) -> Tuple[str, str, str, str]:
    """What a table tells of a case: tokens/s, first token, free memory, energy."""
    found = case["summary"]
    speed, firsts = found["tokens_per_s"], found["first_token_s"]
    length = min(firsts, key=int)
    low, energy = found["available_low_bytes"], found["energy_j_per_token"]
    return (
        f"{speed['median']:.3g} ({speed['low']:.3g} to {speed['high']:.3g})",
        f"{1e3 * firsts[length]['median']:.3g} ms after {length}",
        f"{low['median'] / MIB:.0f} MiB" if low else "not measured",
        f"{energy['median']:.3g} J" if energy else "not measured",
    )
