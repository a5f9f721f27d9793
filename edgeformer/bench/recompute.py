"""Are the figures of a document those of its own rounds? Everything that can be is computed anew.

A summary, a comparison and a noise are only said once more: whoever edits one of them leaves its
rounds behind. `roofline_share` alone cannot be: a document keeps the bandwidth of one size.
"""

import re
from typing import Any, Dict, Iterator, NamedTuple

from edgeformer import strictjson as js
from edgeformer.bench.summary import compared, summary
from edgeformer.errors import EdgeformerError

Value = Dict[str, Any]

NEAR = 1e-11  # relative: the rounding of a sum differs between machines
FIGURE = re.compile("(token_s|load_s|warmup_s|peak_rss_bytes|(first_token_s|rows_s)/[0-9]{1,9})")
GOLDEN = re.compile("([0-9]+) of ([0-9]+) golden tokens")
VERDICT = ("ratio", "low", "high", "confidence", "verdict")


class Difference(NamedTuple):
    """A place that says one thing where something else should stand."""

    place: str
    told: Any
    wanted: Any


def hold(document: Value, where: str) -> None:
    """EdgeformerError with the first thing that a document says against its own rounds."""
    for wrong in findings(document):
        raise EdgeformerError(
            f"{where}: {wrong}. Give the file as it was measured, or measure again"
        )


def findings(document: Value) -> Iterator[str]:
    """What a document that has the right form says against itself."""
    wrong = list(_names(document)) + [text for case in document["cases"] for text in unfit(case)]
    if wrong:  # nothing can be computed from it
        yield from wrong
        return
    for case in document["cases"]:
        yield from _case(case, document)
    yield from _comparisons(document)


def _names(document: Value) -> Iterator[str]:
    """What the schema cannot say: a name stands for one case, and comparisons know their names."""
    names = [case["name"] for case in document["cases"]]
    known = set(names)
    if len(known) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        yield f"two cases are called {js.shown(twice)}"
    seen = set()
    for entry in document["comparisons"]:
        what = entry["a"], entry["b"], entry["figure"]
        if what in seen:
            pair = " and ".join(js.shown(name) for name in what[:2])
            yield f"it compares {pair} twice in {js.shown(what[2])}"
        seen.add(what)
        for side in "ab":
            if entry[side] not in known:
                yield f"it compares {js.shown(entry[side])}, a case that it does not hold"
        if not FIGURE.fullmatch(entry["figure"]):
            yield f"it compares {js.shown(entry['figure'])}, which is no figure of a round"


def unfit(case: Value) -> Iterator[str]:
    """What the schema allows in a round, and no bench writes: nothing can be computed from it."""
    for index, turn in enumerate(case["rounds"]):
        named = {**turn["first_token_s"], **turn["rows_s"]}
        lists = [turn["token_s"], *turn["first_token_s"].values(), *turn["rows_s"].values()]
        where = f"{js.shown(case['name'])}, round {index + 1}"
        if not all(re.fullmatch("[0-9]{1,9}", key) for key in named):
            yield f"{where}: lengths that are no numbers"
        if not all(times and min(times) > 0 for times in lists):
            yield f"{where}: something took no time"


def _case(case: Value, document: Value) -> Iterator[str]:
    name, rounds = js.shown(case["name"]), document["settings"]["rounds"]
    if document["complete"] and (case["error"] is not None or len(case["rounds"]) != rounds):
        ended = f"has {len(case['rounds'])} of {rounds} rounds" if not case["error"] else "died"
        yield f"it says that it is complete, and {name} {ended}"
    for index, turn in enumerate(case["rounds"]):
        for wrong in _counted(turn, document["settings"], document["complete"]):
            yield f"{name}, round {index + 1}: {wrong}"
    told = GOLDEN.fullmatch(case["parity"]["what"])
    exact = case["parity"]["passed"] is True and case["precision"] == "fp32"
    if exact and told is not None and told.group(1) != told.group(2):
        yield f"{name}: parity passed with {told.group(0)}"
    wanted = summary(case["rounds"])
    if wanted is not None and case["summary"] is not None:
        wanted["roofline_share"] = case["summary"]["roofline_share"]
    for one in differences(wanted, case["summary"]):
        yield f"{name}: {_said(one, 'the summary')}"


def _counted(turn: Value, settings: Value, is_complete: bool) -> Iterator[str]:
    """Tokens are those that were asked for: a label that was edited is a figure that was."""
    found, outside = len(turn["token_s"]), len(turn["outside_s"])
    tokens, blocks = settings["new_tokens"] - 1, settings.get("side_by_side")
    if blocks is not None:  # whose number changes where a case dies
        kept = blocks["block_tokens"] - blocks["dropped_tokens"]
        tokens = kept * (blocks["blocks"] if is_complete else max(1, found // max(1, kept)))
    if found != tokens or outside not in (0, found):
        yield f"{found} times of tokens, {outside} of them outside the step; settings give {tokens}"
    for key, wanted in (("first_token_s", "prompt_tokens"), ("rows_s", "rows")):
        unasked = [length for length in turn[key] if int(length) not in settings[wanted]]
        if unasked:
            yield f"{key} of {unasked[0]}, and settings.{wanted} is {settings[wanted]}"


def _comparisons(document: Value) -> Iterator[str]:
    cases = {case["name"]: case for case in document["cases"]}
    confidence = document["settings"]["confidence"]
    for entry in document["comparisons"]:
        a, b, figure = cases[entry["a"]], cases[entry["b"]], entry["figure"]
        verdict = compared(a, b, figure, confidence)._asdict()
        wanted = {key: verdict[key] for key in VERDICT}
        pair = f"{figure} of {js.shown(b['name'])} against {js.shown(a['name'])}"
        for one in differences(wanted, {key: entry[key] for key in VERDICT}):
            yield f"{pair}: {_said(one, 'the verdict')}"
        # more may stand behind it: what a speed costs in quality
        if verdict["why"] is not None and not (entry["why"] or "").startswith(verdict["why"]):
            yield f"{pair}: {_said(Difference('why', entry['why'], verdict['why']), 'the verdict')}"


def _said(one: Difference, otherwise: str) -> str:
    return (
        f"{one.place or otherwise} is {js.shown(one.told)}, and its rounds give "
        f"{js.shown(one.wanted)}"
    )


def differences(wanted: Any, told: Any, place: str = "") -> Iterator[Difference]:
    """Places where two values differ by more than the rounding of a sum."""
    if isinstance(wanted, dict) and isinstance(told, dict):
        for key in [*wanted, *(key for key in told if key not in wanted)]:
            at = f"{place}.{key}" if place else key
            yield from differences(wanted.get(key), told.get(key), at)
    elif isinstance(wanted, list) and isinstance(told, list) and len(wanted) == len(told):
        for index, (one, other) in enumerate(zip(wanted, told)):
            yield from differences(one, other, f"{place}[{index}]")
    elif _numbers(wanted, told):
        if abs(wanted - told) > NEAR * max(abs(wanted), abs(told)):
            yield Difference(place, told, wanted)
    elif wanted != told:
        yield Difference(place, told, wanted)


def _numbers(*values: Any) -> bool:
    return all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in values)
