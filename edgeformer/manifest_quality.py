"""What a manifest says of quality: how far each reduced precision is from float32 on real text."""

import re
from typing import Any, Dict, NamedTuple, Optional, Tuple

from edgeformer import strictjson as js
from edgeformer.errors import BundleError

LARGEST = 1e300  # of a perplexity or a divergence


class EvalText(NamedTuple):
    """The text that was read, by its name and its bytes."""

    name: str
    sha256: str


class Thresholds(NamedTuple):
    """What a precision may lose at most."""

    loss: float  # of perplexity, as a share of float32's
    kl: float  # nats a token, mean of KL(float32 || this)
    top1: float  # least share of tokens with the same likeliest one


class Measured(NamedTuple):
    """One precision on the text. `allowed`: published although it misses its thresholds."""

    perplexity: float
    kl: float
    top1: float
    thresholds: Thresholds
    allowed: bool


class Quality(NamedTuple):
    """Windows of the text, each read from an empty cache, in float32 and in each precision.

    `text` is None where the model wrote its own: it has no tokenizer, or knows no real text.
    """

    text: Optional[EvalText]
    tokens: int  # that were predicted
    window: int
    perplexity: float  # of PyTorch in float32
    precisions: Dict[str, Measured]  # of what runs the graphs: "n8", or an engine's "fp16"


class Pin(NamedTuple):
    """A module that is computed in FP32 where the rest is FP16, or stays out of INT8, and why."""

    module: str
    why: str


def quality(value: Any, where: str) -> Quality:
    entry = js.record(value, where, Quality._fields)
    precisions = js.table(entry["precisions"], where + ".precisions")
    if not precisions:
        raise BundleError(
            f"{where}.precisions is empty; where nothing was measured, {where} is null"
        )
    return Quality(
        js.optional(entry["text"], where + ".text", _text),
        js.integer(entry["tokens"], where + ".tokens", 1, js.MOST_INT32),
        js.integer(entry["window"], where + ".window", 1, js.MOST_INT32),
        js.number(entry["perplexity"], where + ".perplexity", 1, LARGEST),
        {
            name: _measured(found, f"{where}.precisions.{name}")
            for name, found in precisions.items()
        },
    )


def pins(value: Any, where: str) -> Tuple[Pin, ...]:
    return js.items(value, where, _pin)


def _pin(value: Any, where: str) -> Pin:
    entry = js.record(value, where, Pin._fields)
    return Pin(js.text(entry["module"], where + ".module"), js.text(entry["why"], where + ".why"))


def _text(value: Any, where: str) -> EvalText:
    entry = js.record(value, where, EvalText._fields)
    digest = js.text(entry["sha256"], where + ".sha256")
    if not re.match(r"[0-9a-f]{64}\Z", digest):
        raise BundleError(f"{where}.sha256 is {js.shown(digest)}, not 64 hexadecimal digits")
    return EvalText(js.text(entry["name"], where + ".name"), digest)


def _measured(value: Any, where: str) -> Measured:
    entry = js.record(value, where, Measured._fields)
    if not isinstance(entry["allowed"], bool):
        raise BundleError(f"{where}.allowed is {js.shown(entry['allowed'])}, not true or false")
    limits = js.record(entry["thresholds"], where + ".thresholds", Thresholds._fields)
    at = where + ".thresholds."
    return Measured(
        js.number(entry["perplexity"], where + ".perplexity", 1, LARGEST),
        js.number(entry["kl"], where + ".kl", 0, LARGEST),
        js.number(entry["top1"], where + ".top1", 0, 1),
        Thresholds(
            js.number(limits["loss"], at + "loss", 0, LARGEST),
            js.number(limits["kl"], at + "kl", 0, LARGEST),
            js.number(limits["top1"], at + "top1", 0, 1),
        ),
        entry["allowed"],
    )
