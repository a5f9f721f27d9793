"""Which whole layers a decoder can best do without.

The influence of a layer is 1 - the mean cosine of what goes into it and what comes out (Men et al.
2024, ShortGPT, arXiv:2403.03853). It is cheap and only roughly right, so the least influential few
are tried: the layer goes without which the next-token distributions on the calibration text stay
nearest to those of the whole decoder. One after the other, since of layers that do the same not all
may go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F

from edgeformer.nn.blockwise import embedded, run_block
from edgeformer.nn.decoder import Decoder

TRIED = 4  # layers whose absence is measured, of which one goes


@torch.no_grad()
def layers_to_keep(
    decoder: Decoder, count: int, ids: torch.Tensor, progress: Callable[[str], None]
) -> list[int]:
    """All layers but `count`; ids int64 [sequences, length]."""
    kept = list(range(decoder.config.n_layers))
    for n in range(count):
        progress(f"layers: {n} of {count} chosen")
        influence = influences(decoder, kept, ids)
        tried = sorted(kept, key=influence.__getitem__)[:TRIED]
        if len(tried) > 1:
            lost = divergences(decoder, [[k for k in kept if k != i] for i in tried], ids)
            tried = [tried[lost.index(min(lost))]]
        kept.remove(tried[0])
    return kept


@torch.no_grad()
def influences(decoder: Decoder, layers: Sequence[int], ids: torch.Tensor) -> dict[int, float]:
    """Of each of these layers, where only these run. ids int64 [sequences, length]."""
    total = dict.fromkeys(layers, 0.0)
    for sequence in ids.split(1):
        x, length = embedded(decoder, sequence)
        for i in layers:
            y = run_block(decoder, i, decoder.blocks[i], x, length)
            total[i] += float((1.0 - F.cosine_similarity(x, y, dim=-1)).mean()) / len(ids)
            x = y
    return total


@torch.no_grad()
def divergences(
    decoder: Decoder, choices: Sequence[Sequence[int]], ids: torch.Tensor
) -> list[float]:
    """KL(whole decoder || only these layers), mean nats a token, for each choice of layers."""
    total = [0.0] * len(choices)
    for sequence in ids.split(1):  # logits of one sequence at a time: a vocabulary is large
        whole = _logits(decoder, range(decoder.config.n_layers), sequence).log_softmax(-1)
        for n, layers in enumerate(choices):
            part = _logits(decoder, layers, sequence).log_softmax(-1)
            total[n] += float(F.kl_div(part, whole, log_target=True, reduction="batchmean"))
    return [value / len(ids) for value in total]


def _logits(decoder: Decoder, layers: Sequence[int], sequence: torch.Tensor) -> torch.Tensor:
    """[1, T] -> [T, vocab], where only these layers run."""
    x, length = embedded(decoder, sequence)
    for i in layers:
        x = run_block(decoder, i, decoder.blocks[i], x, length)
    return decoder.logits(x)
