"""Which products cost too much in INT8: measured one by one on real text, and left out until the
rest is within a budget."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from edgeformer.errors import EdgeformerError
from edgeformer.nn.blockwise import embedded, run_block
from edgeformer.nn.decoder import Decoder
from edgeformer.nn.quantize.int8 import HEAD, Int8, Product, calibrated, in_int8

# Nats of KL, of all products together. On SmolLM2-135M-Instruct, held-out text loses twice as much
# and 0.8 % of perplexity.
BUDGET = 0.01
TOKENS = 256  # of the calibration text, on which it is measured
STEPS = 50  # products are left out one by one, or this many times some
LOGITS = 2**26  # numbers: fewer tokens where the vocabulary is large


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
    wanted = max(1, min(TOKENS, LOGITS // decoder.config.vocab_size) // ids.shape[1])
    costs = _left_out(own, products, ids[:wanted], budget, progress)
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
    run = _Run(own, ids)
    if run.divergence(products) <= budget:
        return {}
    alone = {}
    for name, product in products.items():
        progress(f"{name} alone")
        alone[name] = run.divergence({name: product})
    order = sorted(alone, key=lambda name: -alone[name])
    # Costs add up, to 3 % on SmolLM2-135M: the sum says with how many to begin.
    enough = 1
    while sum(alone[name] for name in order[enough:]) > budget:
        enough += 1
    while enough < len(order):
        progress(f"without the {enough} dearest products")
        if run.divergence({name: products[name] for name in order[enough:]}) <= budget:
            break
        enough += max(1, len(order) // STEPS)
    why = "alone in INT8 it costs KL {:.3g}; all that are INT8 may cost {:g} together"
    return {name: why.format(alone[name], budget) for name in order[:enough]}


class _Run:
    """A decoder over a text in float32, block after block, and from any block on in INT8."""

    def __init__(self, own: Decoder, ids: torch.Tensor) -> None:
        self.own = own
        x, self.length = embedded(own, ids)
        self.states = [x]  # what each block is given
        for i in range(own.config.n_layers):
            self.states.append(self._block(i, self.states[-1]))
        self.wanted = own.logits(self.states[-1]).log_softmax(-1)  # [tokens, vocab]

    def divergence(self, products: Mapping[str, Product]) -> float:
        """Mean KL of the distributions with these products in INT8."""
        layers = self.own.config.n_layers
        first = min(layers if name == HEAD else int(name.split(".")[1]) for name in products)
        # a head behind the last block's norm hooks in there
        first = min(first, layers - 1) if not self.own.config.final_norm else first
        with in_int8(self.own, products):
            x = self.states[first]
            for i in range(first, layers):
                x = self._block(i, x)
            found = self.own.logits(x).log_softmax(-1)
        if not torch.isfinite(found).all():
            return float("inf")
        return float((self.wanted.exp() * (self.wanted - found)).sum(-1).mean())

    def _block(self, i: int, x: torch.Tensor) -> torch.Tensor:
        return run_block(self.own, i, self.own.blocks[i], x, self.length)


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
