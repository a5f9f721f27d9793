"""A document as text: a column for each case, every figure with its unit."""

from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

COLUMNS = 2  # side by side; more begin a new table
LABEL, WIDTH = 26, 34

Unit = Tuple[float, str]  # what a figure is multiplied by, and the word behind it
Row = Tuple[str, Callable[[Dict[str, Any]], str]]
LEGEND = """\
Each figure: the median of its rounds, at most {rounds} (lowest to highest), each a fresh process.
tokens/s: n-1 intervals between n = {new_tokens} tokens, decoded greedily behind {prompt} others;
  neither prompt nor warm-up is in it, and an end token does not end it.
first token: prompt in, first new token out. prefill: prompt tokens a second of that time.
seconds of b for each of a: of the quickest tenth of each round, where other programs disturb least.
outside the step: loop, text and stop rules, a token. rows in use: one step of one token.
load: edgeformer.load in a fresh process, files in the page cache. Other figures: --json."""
SIDE_BY_SIDE = """\
side by side: the cases of a round were in memory at once and decoded in turns, {blocks} blocks;
  the first {dropped_tokens} of each block of {block_tokens} tokens are in no figure. Least memory
  left is that beside all of them."""


def text_of(document: Dict[str, Any]) -> str:
    """The whole report."""
    cases = document["cases"]
    lines = conditions_of(document)
    for start in range(0, len(cases), COLUMNS):
        lines += ["", *_block(cases[start : start + COLUMNS], document)]
    lines += _errors(cases)
    lines += _comparisons(document)
    settings = document["settings"]
    prompt = settings["prompt_tokens"][0]
    lines += ["", LEGEND.format(prompt=prompt, **settings)]
    if "side_by_side" in settings:
        lines.append(SIDE_BY_SIDE.format(**settings["side_by_side"]))
    if not document["complete"]:
        lines.append("NOT COMPLETE: not every round of every case was measured.")
    return "\n".join(lines) + "\n"


def conditions_of(document: Dict[str, Any]) -> List[str]:
    """The machine and the versions, in lines."""
    machine, board = document["machine"], document["machine"]["board"]
    packages = [f"{name} {it}" for name, it in sorted(machine["packages"].items()) if it]
    where = "in a container, " if machine["container"] else ""
    lines = [
        f"{machine['processor']}, {machine['cpus']} CPUs, {where}load {machine['load_average'][0]}"
        f", governor {machine['governor'] or 'not told'}, huge pages {machine['huge_pages']}",
        f"Python {machine['python']}, {', '.join(packages)}; edgeformer {document['edgeformer']}"
        + (f" at {document['commit'][:12]}" if document["commit"] else ""),
    ]
    rate = machine["bandwidth_bytes_per_s"]
    if rate:
        end = "" if rate["at_end"] is None else f", {rate['at_end'] / 1e9:.1f} at the end"
        size = f"{rate['working_set_bytes'] / 1e6:.1f} MB, threads: {rate['threads']}"
        lines.append(f"read bandwidth {rate['at_start'] / 1e9:.1f} GB/s at the start{end} ({size})")
    if board:
        clocks = {True: "locked", False: "not locked", None: "not told"}[board["clocks_locked"]]
        lines.append(
            f"{board['model']}, L4T {board['l4t']}, JetPack {board['jetpack']}, power mode "
            f"{board['power_mode']}, clocks {clocks}"
        )
    return lines


def _block(cases: Sequence[Dict[str, Any]], document: Dict[str, Any]) -> List[str]:
    lines = [_line("", [case["name"] for case in cases])]
    for label, cell in _rows(document["settings"]):
        cells = [cell(case) for case in cases]
        if any(cells):
            lines.append(_line(label, [text or "-" for text in cells]))
    return lines


def _line(label: str, cells: Sequence[str]) -> str:
    """Names may be long: what does not fit moves the rest, and is not cut."""
    return (f"{label:{LABEL}}" + "  ".join(f"{cell:{WIDTH}}" for cell in cells)).rstrip()


def _rows(settings: Dict[str, Any]) -> List[Row]:
    rows: List[Row] = [
        ("threads", lambda case: str(case["threads"])),
        ("weights", lambda case: f"{case['model']['weights_bytes'] / 1e6:.1f} MB"),
        ("parity", lambda case: _parity(case["parity"])),
        ("load", _figure("load_s", _seconds)),
        ("warm-up", _figure("warmup_s", _seconds)),
    ]
    for length in settings["prompt_tokens"]:
        label = f"first token, prompt {length}"
        rows.append((label, _figure("first_token_s", _seconds, length)))
    for length in settings["prompt_tokens"]:
        label = f"prefill, prompt {length}"
        rows.append((label, _figure("prefill_tokens_per_s", _rate, length)))
    rows += [
        ("a token, median", _figure("token_s", _seconds)),
        ("a token, 95 % / 99 %", _tail),
        ("a token, quartiles apart", lambda case: _share(case, lambda s: s["token_s"]["spread"])),
        ("tokens/s", _figure("tokens_per_s", _rate)),
        ("outside the step", _figure("outside_s", _seconds)),
    ]
    for count in settings["rows"]:
        rows.append((f"a step, {count} rows in use", _figure("rows_s", _seconds, count)))
    return rows + [
        ("peak memory (RSS)", _figure("peak_rss_bytes", _megabytes)),
        ("least memory left", _figure("available_low_bytes", _megabytes)),
        ("energy a token", _figure("energy_j_per_token", _joules)),
        ("GPU load, decoding", _sensor("gpu_load", lambda values: f"{max(values):.0%}")),
        ("clocks, decoding", clocks),
        ("hottest", _sensor("temperature_c", lambda values: f"{max(values):.0f} C")),
        ("throttled", _sensor("throttled", lambda values: "YES" if any(values) else "no")),
        ("noise between rounds", lambda case: _share(case, lambda s: s["noise"])),
        ("share of bandwidth", lambda case: _share(case, lambda s: s["roofline_share"])),
    ]


def _figure(
    name: str, unit: Callable[[float], Unit], key: Optional[int] = None
) -> Callable[[Dict[str, Any]], str]:
    """A cell, in the unit that suits the median: "1.23 ms (1.20 to 1.31)"."""

    def cell(case: Dict[str, Any]) -> str:
        found = (case["summary"] or {}).get(name)
        if key is not None and found is not None:
            found = found.get(str(key))
        if found is None:
            return ""
        factor, word = unit(found["median"])
        low, middle, high = (_digits(found[k] * factor) for k in ("low", "median", "high"))
        return f"{middle} {word} ({low} to {high})"

    return cell


def _digits(value: float) -> str:
    """Three digits that count, and none after the point beyond a hundred."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _sensor(name: str, shown: Callable[[List[Any]], str]) -> Callable[[Dict[str, Any]], str]:
    def cell(case: Dict[str, Any]) -> str:
        values = [turn[name] for turn in case["rounds"] if turn[name] is not None]
        return shown(values) if values else ""

    return cell


def clocks(case: Dict[str, Any]) -> str:
    """Between which values the rounds' clocks were, MHz; "" where no round tells one."""
    told = []
    for name, word in (("cpu_hz", "CPU"), ("gpu_hz", "GPU"), ("emc_hz", "memory")):
        found = [turn[name] / 1e6 for turn in case["rounds"] if turn.get(name) is not None]
        low, high = (f"{end(found):.0f}" if found else "" for end in (min, max))
        if found:
            told.append(f"{word} {low} MHz" if low == high else f"{word} {low} to {high} MHz")
    return ", ".join(told)


def _tail(case: Dict[str, Any]) -> str:
    if case["summary"] is None:
        return ""
    found = case["summary"]["token_s"]
    factor, word = _seconds(found["p95"])
    return " / ".join(f"{_digits(found[key] * factor)} {word}" for key in ("p95", "p99"))


def _share(case: Dict[str, Any], value: Callable[[Dict[str, Any]], Optional[float]]) -> str:
    found = None if case["summary"] is None else value(case["summary"])
    return "" if found is None else f"{found:.1%}"


def _parity(parity: Dict[str, Any]) -> str:
    said = {True: "", False: "FAILED: ", None: "not known: "}[parity["passed"]]
    return said + str(parity["what"])


def _seconds(value: float) -> Unit:
    if value >= 1:
        return 1, "s"
    return (1e3, "ms") if value >= 1e-3 else (1e6, "us")


def _rate(_: float) -> Unit:
    return 1, "tokens/s"


def _megabytes(_: float) -> Unit:
    return 1e-6, "MB"


def _joules(value: float) -> Unit:
    return (1, "J") if value >= 1 else (1e3, "mJ")


def _errors(cases: Sequence[Dict[str, Any]]) -> List[str]:
    return [f"DIED: {case['name']}: {case['error']}" for case in cases if case["error"]]


def _comparisons(document: Dict[str, Any]) -> List[str]:
    """Pair by pair; a reason that all figures of a pair share is told once."""
    lines: List[str] = []
    listed = document["comparisons"]
    how = " (side by side)" if "side_by_side" in document["settings"] else ""
    for pair in dict.fromkeys((found["a"], found["b"]) for found in listed):
        figures = [found for found in listed if (found["a"], found["b"]) == pair]
        lines += ["", f"seconds of b for each of a{how}: a = {pair[0]}, b = {pair[1]}"]
        reasons = {found["why"] for found in figures}
        if len(reasons) == 1 and figures[0]["verdict"] == "not compared":
            lines.append(f"  not compared: {reasons.pop()}")
            continue
        lines += [f"  {_label(found['figure']):26}{_verdict(found)}" for found in figures]
    return lines


def _verdict(found: Dict[str, Any]) -> str:
    if found["low"] is None:
        return f"{found['verdict']}: {found['why']}"
    between = f"{found['low']:.3f} to {found['high']:.3f}, {found['confidence']:.1%}"
    if found["ratio"] is None:
        return f"{found['verdict']} beyond the noise ({between})"
    return f"{found['ratio']:.3f} ({between}): {found['verdict']}"


def _label(figure: str) -> str:
    name, _, key = figure.partition("/")
    words = {
        "token_s": "a token",
        "first_token_s": "first token, prompt " + key,
        "rows_s": f"a step, {key} rows in use",
        "load_s": "load",
    }
    return words.get(name, figure)
