"""What a manifest says about the golden run: tokens, the reference's best logits, limits."""

from typing import Any, Dict, NamedTuple, Tuple

from edgeformer import strictjson as js
from edgeformer.errors import BundleError
from edgeformer.manifest_text import token_id

LARGEST = 1e9  # of a logit, an error or a limit


class Limits(NamedTuple):
    """How far what runs in one precision may be from the reference."""

    logit_error: float  # of max(1, the largest |logit| of the step)
    kl: float  # nats, in every step
    top1: float  # share of the steps with the same likeliest token


class Top(NamedTuple):
    """The reference's likeliest tokens in each step, all in the order of the steps."""

    ids: Tuple[Tuple[int, ...], ...]
    logits: Tuple[Tuple[float, ...], ...]
    log_sums: Tuple[float, ...]  # log of the sum of exp over the whole vocabulary


class Golden(NamedTuple):
    """A prompt and what PyTorch in float32, without a cache, makes of it greedily.

    `largest_logit_error`, `largest_kl` and `top1` are what the exporter measured of the graphs;
    `limits` are by the precision of what runs them.
    """

    prompt_ids: Tuple[int, ...]
    greedy_ids: Tuple[int, ...]
    largest_logit_error: float
    largest_kl: float
    top1: float
    top: Top
    limits: Dict[str, Limits]


def golden(value: Any, where: str) -> Golden:
    entry = js.record(value, where, Golden._fields)

    def at(key: str) -> Tuple[Any, str]:
        return entry[key], f"{where}.{key}"

    greedy = js.items(*at("greedy_ids"), check=token_id)
    limits = js.table(*at("limits"))
    return Golden(
        js.items(*at("prompt_ids"), check=token_id),
        greedy,
        js.number(*at("largest_logit_error"), low=0, high=LARGEST),
        js.number(*at("largest_kl"), low=0, high=LARGEST),
        js.number(*at("top1"), low=0, high=1),
        _top(*at("top"), steps=len(greedy)),
        {name: _limits(limits[name], f"{where}.limits.{name}") for name in limits},
    )


def _limits(value: Any, where: str) -> Limits:
    entry = js.record(value, where, Limits._fields)
    return Limits(
        js.number(entry["logit_error"], where + ".logit_error", 0, LARGEST),
        js.number(entry["kl"], where + ".kl", 0, LARGEST),
        js.number(entry["top1"], where + ".top1", 0, 1),
    )


def _top(value: Any, where: str, steps: int) -> Top:
    entry = js.record(value, where, Top._fields)
    found = Top(
        js.items(entry["ids"], where + ".ids", _ids),
        js.items(entry["logits"], where + ".logits", _logits),
        _logits(entry["log_sums"], where + ".log_sums"),
    )
    sizes = [[len(row) for row in rows] for rows in (found.ids, found.logits)]
    if sizes[0] != sizes[1] or not len(found.ids) == len(found.log_sums) == steps:
        raise BundleError(f"{where} does not have ids, logits and a log_sum for each greedy id")
    if not all(sizes[0]):
        raise BundleError(f"{where} has a step without any id")
    return found


def _ids(value: Any, where: str) -> Tuple[int, ...]:
    return js.items(value, where, token_id)


def _logits(value: Any, where: str) -> Tuple[float, ...]:
    return js.items(value, where, _logit)


def _logit(value: Any, where: str) -> float:
    return js.number(value, where, -LARGEST, LARGEST)
