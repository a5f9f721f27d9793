"""Products in int8 whose inputs are rounded anew at each step: in what form, measured on a text.

Weights are symmetric, with a scale for each output. Inputs are uint8 over the range that they
have in that step. What large channels and huge tokens would cost is measured product by product:
smoothing takes the channels away at no cost, a scale for each row the tokens.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection
from dataclasses import dataclass

import torch
from torch import nn

from edgeformer.errors import EdgeformerError
from edgeformer.nn.blockwise import MOST_AT_ONCE, check_finite, embedded, inputs_of, run_block
from edgeformer.nn.decoder import Decoder
from edgeformer.nn.quantize.int8_forms import SMALLEST, Form, int8_dense, rounded
from edgeformer.nn.quantize.int8_smooth import Fold, divide, factors, folds

ALPHAS = (0.5, 0.65, 0.8)  # of SmoothQuant, tried for each fold beside none at all
ROWS = 256  # of a product's inputs, on which errors are measured
WORTH = 2.0  # rows have scales of their own where the squared error is so much larger without
FAR = 0.01  # squared error of an output, as a share of its square: 10 %
DISTINCT = 16  # tokens: a text with fewer says nothing of what channels and tokens are large
HEAD_KL = 0.001  # nats that the head may cost in the plain form
HEAD_TOKENS = 2**24  # logits, on which that is measured


Few = tuple[torch.Tensor, torch.Tensor]  # some of a product's inputs, and of all the largest


@dataclass(frozen=True)
class DynamicInt8:
    """forms: of the quantized parameters, by name. folded: float32 parameters that smoothing
    changed, quantized ones too. left_out: parameter -> why it stays in float32."""

    forms: dict[str, Form]
    folded: dict[str, torch.Tensor]
    left_out: dict[str, str]


@torch.no_grad()
def dynamic_int8(
    decoder: Decoder,
    ids: torch.Tensor,
    leave_out: Collection[str] = (),
    progress: Callable[[str], None] = lambda name: None,
) -> DynamicInt8:
    """Choose the form of each product; the decoder is left as it is.

    ids: int64 [sequences, length], the calibration text; on one that repeats a few tokens nothing
    is measured, and every product has the safest form. leave_out: parameters that the caller
    wants in float32. A tied table is in int8 where the head can be, and only there.
    """
    _check(decoder, leave_out)
    if len(ids.unique()) < DISTINCT:
        return _safest(decoder, leave_out)
    own, c = copy.deepcopy(decoder).eval(), decoder.config
    forms: dict[str, Form] = {}
    left_out = dict.fromkeys(leave_out, "asked for")
    states = [embedded(own, part) for part in ids.split(MOST_AT_ONCE)]
    for i, block in enumerate(own.blocks):
        progress(f"layer {i + 1} of {c.n_layers}")
        names = [f"blocks.{i}.{n}" for n, m in block.named_modules() if isinstance(m, nn.Linear)]
        with inputs_of(own, names) as parts:
            states = [(run_block(own, i, block, x, length), length) for x, length in states]
        inputs = {name: _few(torch.cat(parts[name])) for name in names}
        for fold in folds(c, i):
            _smooth(own, fold, inputs)
        for name, (x, _) in inputs.items():
            _choose(f"{name}.weight", x, own.get_submodule(name).weight, forms, left_out)
    progress("head")
    _choose_tables(own, torch.cat([x for x, _ in states]), forms, left_out)
    before = dict(decoder.named_parameters())
    changed = {n: p.detach() for n, p in own.named_parameters() if not torch.equal(p, before[n])}
    return DynamicInt8(forms, changed, left_out)


def _safest(decoder: Decoder, leave_out: Collection[str]) -> DynamicInt8:
    forms = {"embedding.weight": Form.FINE, "head.weight": Form.FINE}
    forms |= {
        f"{n}.weight": Form.FINE
        for n, m in decoder.blocks.named_modules(prefix="blocks")
        if isinstance(m, nn.Linear)
    }
    if decoder.config.tie_embeddings:
        del forms["head.weight"]
    for name in leave_out:
        forms.pop(name, None)
    return DynamicInt8(forms, {}, dict.fromkeys(leave_out, "asked for"))


def _few(x: torch.Tensor) -> Few:
    """Those between which the others lie, and some of them; and each channel's largest magnitude.

    They stand for all rows of a step: its range is that of the whole text, or a little less.
    """
    ends = torch.stack([x.amax(1).argmax(), x.amin(1).argmin()])
    return torch.cat([x[ends], x[:: max(1, len(x) // ROWS)]]), x.abs().amax(0)


def _choose(
    name: str,
    x: torch.Tensor,
    weight: torch.Tensor,
    forms: dict[str, Form],
    left_out: dict[str, str],
) -> None:
    if name in left_out:
        return
    errors = {form: _error(x, [weight], [weight], form) for form in Form}
    if errors[Form.PLAIN] <= WORTH * errors[Form.ROWS]:
        form = Form.PLAIN
    else:
        form = Form.ROWS if errors[Form.ROWS] <= FAR else Form.FINE
    if errors[form] > FAR:
        form = Form.FINE
    if errors[form] > FAR:
        left_out[name] = f"in int8 its outputs are off by {errors[form] ** 0.5:.0%} on average"
    else:
        forms[name] = form


def _choose_tables(
    own: Decoder, x: torch.Tensor, forms: dict[str, Form], left_out: dict[str, str]
) -> None:
    """The head by what it costs in KL; x [tokens, d_model] is what the last block gives."""
    tied = own.config.tie_embeddings
    name = "embedding.weight" if tied else "head.weight"
    if not tied and "embedding.weight" not in left_out:
        forms["embedding.weight"] = Form.PLAIN
    if name in left_out:
        return
    count = max(1, min(len(x), HEAD_TOKENS // own.config.vocab_size))
    x = x[:: max(1, len(x) // count)][:count]
    weight = own.get_parameter(name)
    wanted, kept = own.logits(x).log_softmax(-1), weight.data
    weight.data = int8_dense(kept)
    for form in (Form.PLAIN, Form.FINE):
        found = _head_logits(own, x, form).log_softmax(-1)
        cost = float((wanted.exp() * (wanted - found)).sum(-1).mean())
        if cost <= HEAD_KL:
            forms[name] = form
            break
    else:
        left_out[name] = f"in int8 it alone costs KL {cost:.3g}, allowed {HEAD_KL:g}"
    weight.data = kept


def _head_logits(own: Decoder, x: torch.Tensor, form: Form) -> torch.Tensor:
    if not own.config.final_norm:
        return own.logits(rounded(x, form))
    handle = own.final_norm.register_forward_hook(lambda _, inputs, y: rounded(y, form))
    try:
        return own.logits(x)
    finally:
        handle.remove()


def _smooth(own: Decoder, fold: Fold, inputs: dict[str, Few]) -> None:
    """Fold in the factors of the alpha with the least error, if any is better than none."""
    x, most = inputs[fold.products[0]]
    weights = [own.get_submodule(name).weight for name in fold.products]
    tried = [torch.ones_like(most)]
    tried += [factors(own.config, fold, most, weights, alpha) for alpha in ALPHAS]
    best = {}
    for form in (Form.PLAIN, Form.ROWS):
        errors = [_error(x / by, [w * by for w in weights], weights, form, by) for by in tried]
        best[form] = min(range(len(tried)), key=errors.__getitem__), min(errors)
    plain, rows = best[Form.PLAIN], best[Form.ROWS]
    index = plain[0] if plain[1] <= WORTH * rows[1] else rows[0]
    if index:
        divide(own, fold, tried[index])
        for name in fold.products:
            inputs[name] = x / tried[index], most / tried[index]


def _error(
    x: torch.Tensor,
    weights: list[torch.Tensor],
    originals: list[torch.Tensor],
    form: Form,
    by: torch.Tensor | None = None,
) -> float:
    """Squared error of an output as a share of its square: the mean over tokens, large and small.

    x: [tokens, inputs]; `by` is what they, and the weights the other way, were divided by.
    """
    found, plain = rounded(x, form), x if by is None else x * by
    total = 0.0
    for weight, original in zip(weights, originals, strict=True):
        y = plain @ original.t()
        gap = found @ int8_dense(weight).t() - y
        total += float((gap.square().sum(1) / y.square().sum(1).clamp(min=SMALLEST)).mean())
    return total / len(weights)


def _check(decoder: Decoder, leave_out: Collection[str]) -> None:
    parameters = dict(decoder.named_parameters())
    for name in leave_out:
        if name not in parameters:
            raise EdgeformerError(f"the model has no {name} that could be left out of int8")
    check_finite(decoder)
