"""SmoothQuant: large channels of an activation become small and their weights large, exactly.

Xiao, Lin, Seznec, Wu, Demouth, Han 2022, "SmoothQuant: Accurate and Efficient Post-Training
Quantization for Large Language Models" (arXiv:2211.10438). A product's inputs are divided by a
factor a channel and its weights multiplied by it; what makes the inputs does the division:

- the norm before it, weight and bias; two products behind one norm share the factors;
- `attention.out` <- the rows of `attention.qkv` that make the values: attention mixes tokens, not
  channels. Query heads that share a value head share its factors;
- `ff.down` <- the upper half of a gated `ff.up`, or all of it with ReLU, which a positive factor
  passes through;
- the head <- the last norm. A tied head is then a matrix of its own.

Nothing divides exactly, and nothing is smoothed: before `ff.down` behind GELU, and where a product
reads the residual itself (norm placements "post" and "output").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from edgeformer.nn.config import GATED, ModelConfig
from edgeformer.nn.decoder import Decoder
from edgeformer.nn.layers import Norm

SMALLEST, LARGEST = 1e-4, 1e4  # factors: beyond these, half precision loses what was divided


@dataclass(frozen=True)
class Fold:
    """`products` all read what `source` makes; names of modules."""

    products: tuple[str, ...]
    source: str


def folds(c: ModelConfig, layer: int) -> list[Fold]:
    """The exact ones inside a layer. Those that change a source's rows stand before those that
    look at its weights."""
    at = f"blocks.{layer}."
    qkv, out, up, down = (at + n for n in ("attention.qkv", "attention.out", "ff.up", "ff.down"))
    found = [Fold((out,), qkv)]
    if c.feed_forward in GATED or c.feed_forward == "relu":
        found.append(Fold((down,), up))
    if c.parallel == "one_norm":
        found.append(Fold((qkv, up), at + "attention_norm"))
    elif c.parallel == "two_norms" or c.norm_placement in ("pre", "sandwich"):
        found += [Fold((qkv,), at + "attention_norm"), Fold((up,), at + "ff_norm")]
    return found


def head_fold(c: ModelConfig) -> list[Fold]:
    """For a decoder whose head is a matrix of its own."""
    return [Fold(("head",), "final_norm")] if c.final_norm else []


def factors(
    c: ModelConfig, fold: Fold, most: torch.Tensor, weights: Sequence[torch.Tensor], alpha: float
) -> torch.Tensor:
    """[inputs]: max|x| ** alpha / max|w| ** (1 - alpha), their geometric mean 1.

    most: the largest magnitude of each input, [inputs]. A channel of zeros has the factor 1.
    """
    x, w = most, torch.stack([weight.abs().amax(0) for weight in weights]).amax(0)
    if fold.source.endswith("attention.qkv"):
        x, w = (_by_value_head(c, t).amax(1, keepdim=True) for t in (x, w))
    counted = (x > 0) & (w > 0)
    logs = alpha * x.clamp(min=1e-30).log() - (1.0 - alpha) * w.clamp(min=1e-30).log()
    if not counted.any():
        return torch.ones_like(most)
    made = (logs - logs[counted].mean()).exp().clamp(SMALLEST, LARGEST)
    made = torch.where(counted, made, torch.ones_like(made))
    if fold.source.endswith("attention.qkv"):
        made = made.expand(-1, c.n_heads // c.n_kv_heads, -1).reshape(-1)
    return made


@torch.no_grad()
def divide(decoder: Decoder, fold: Fold, by: torch.Tensor) -> None:
    """Divide what the source makes by `by`, [inputs of the products], and multiply the weights."""
    for name in fold.products:
        decoder.get_submodule(name).weight.mul_(by)
    source, c = decoder.get_submodule(fold.source), decoder.config
    rows = slice(None)
    if isinstance(source, Norm):
        scale = 1.0 + source.weight if source.plus_one else source.weight
        source.weight.copy_(scale / by - 1.0 if source.plus_one else scale / by)
    elif fold.source.endswith("attention.qkv"):
        rows = slice(-c.kv_width, None)
        by = _by_value_head(c, by)[:, 0].reshape(-1)
        source.weight[rows] /= by[:, None]
    else:
        rows = slice(c.d_ff if c.feed_forward in GATED else 0, None)
        source.weight[rows] /= by[:, None]
    if source.bias is not None:
        source.bias[rows] /= by


def _by_value_head(c: ModelConfig, x: torch.Tensor) -> torch.Tensor:
    """[heads * head_dim] -> [kv_heads, query heads of each, head_dim]."""
    return x.reshape(c.n_kv_heads, -1, c.head_dim)
