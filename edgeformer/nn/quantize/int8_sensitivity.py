"""Which products cost too much in INT8: measured one by one on real text, and left out until the
rest is within a budget."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from edgeformer.errors import EdgeformerError
from edgeformer.nn.decoder import Decoder
from edgeformer.nn.quantize.divergence import Divergence
from edgeformer.nn.quantize.int8 import HEAD, Int8, Product, calibrated, in_int8

# Nats of KL, of all products together. On SmolLM2-135M-Instruct, held-out text loses twice as much
# and 0.8 % of perplexity.
BUDGET = 0.01
TOKENS = 256  # of the calibration text, on which it is measured
STEPS = 50  # products are left out one by one, or this many times some


@torch.no_grad()
def quantize_int8(
    decoder: Decoder,
    ids: torch.Tensor,
    calibrator: str = "max",
    smooth: bool = True,
    budget: float = BUDGET,
    progress: Callable[[str], None] = lambda name: None,
) -> Int8:
    """Quantize all products of a decoder but those that cost too much; it is left as it is.

    ids: int64 [sequences, length], the calibration text. budget: how far the distributions of the
    next token may be from float32, KL in nats, on a part of that text.
    """
    own, products, left_out = calibrated(decoder, ids, calibrator, smooth, progress)
    costs = _left_out(own, products, ids, budget, progress)
    left_out |= costs
    products = {name: product for name, product in products.items() if name not in costs}
    if not products:
        raise EdgeformerError(
            f"no product of this model can be INT8 within KL {budget:g}; export fp16 or fp32"
        )
    return Int8(products, _folded(decoder, own, products), left_out)


def _left_out(
    own: Decoder,
    products: Mapping[str, Product],
    ids: torch.Tensor,
    budget: float,
    progress: Callable[[str], None],
) -> dict[str, str]:
    progress("all products together")
    run = Divergence(own, ids, TOKENS)
    if _divergence(run, own, products) <= budget:
        return {}
    alone = {}
    for name, product in products.items():
        progress(f"{name} alone")
        alone[name] = _divergence(run, own, {name: product})
    order = sorted(alone, key=lambda name: -alone[name])
    # Costs add up, to 3 % on SmolLM2-135M: the sum says with how many to begin.
    enough = 1
    while sum(alone[name] for name in order[enough:]) > budget:
        enough += 1
    while enough < len(order):
        progress(f"without the {enough} dearest products")
        rest = {name: products[name] for name in order[enough:]}
        if _divergence(run, own, rest) <= budget:
            break
        enough += max(1, len(order) // STEPS)
    why = "alone in INT8 it costs KL {:.3g}; all that are INT8 may cost {:g} together"
    return {name: why.format(alone[name], budget) for name in order[:enough]}


def _divergence(run: Divergence, own: Decoder, products: Mapping[str, Product]) -> float:
    """Mean KL of the distributions with these products in INT8, nats a token."""
    layers = own.config.n_layers
    first = min(layers if name == HEAD else int(name.split(".")[1]) for name in products)
    # a head behind the last block's norm hooks in there
    first = min(first, layers - 1) if not own.config.final_norm else first
    return run.under(in_int8(own, products), first)


def _folded(
    decoder: Decoder, own: Decoder, products: Mapping[str, Product]
) -> dict[str, torch.Tensor]:
    """Parameters that smoothing changed, and that are not quantized."""
    before, quantized = dict(decoder.named_parameters()), {name + ".weight" for name in products}
    found = {}
    for name, weight in own.named_parameters():
        head = name.startswith(("head.", "final_norm."))  # they go together, or not at all
        if name in quantized or name not in before or (head and HEAD not in products):
            continue
        if not torch.equal(weight, before[name]):
            found[name] = weight.detach()
    return found
