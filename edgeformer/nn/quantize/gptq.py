"""GPTQ: each column's rounding error is made good by the columns that come after it.

Frantar, Ashkboos, Hoefler, Alistarh 2022, "GPTQ: Accurate Post-Training Quantization for
Generative Pre-trained Transformers" (arXiv:2210.17323). A block's scale is searched when its
first column is reached, on the weights as the columns before it have left them.
"""

from __future__ import annotations

import torch

from edgeformer.errors import EdgeformerError
from edgeformer.nn.quantize.blocks import Blocks, Format
from edgeformer.nn.quantize.search import searched

DAMPING = 0.01  # of the mean of the diagonal, added to it


def gptq(weight: torch.Tensor, format: Format, moments: torch.Tensor) -> Blocks:
    """Quantize so that the product's output changes least on the calibration text.

    weight: [outputs, inputs]; moments: the sum or mean of x x^T over the inputs x of that text,
    [inputs, inputs]. All-zero moments (a text that says nothing) fall back to every input counting
    alike. Raises EdgeformerError where the moments are no finite numbers.
    """
    if not torch.isfinite(moments).all():
        raise EdgeformerError("the calibration text gives activations that are no numbers")
    diagonal = moments.diagonal().double()
    importance = diagonal.float()
    upper = _inverse_root(moments)
    left = weight.detach().float().clone()  # [outputs, inputs], corrected as we go
    values, scales, zeros = [], [], []
    for start in range(0, weight.shape[1], format.block):
        stop = min(start + format.block, weight.shape[1])
        found = searched(left[:, start:stop], format, importance[start:stop])
        scale, zero = found.scales[:, 0], found.zeros[:, 0].float()
        block = torch.full((len(weight), format.block), 0.0)
        block += zero[:, None]  # behind the last input
        errors = torch.empty(len(weight), stop - start)
        for i in range(start, stop):
            column = left[:, i]
            block[:, i - start] = ((column / scale).round() + zero).clamp(0, format.most)
            wrong = column - (block[:, i - start] - zero) * scale
            errors[:, i - start] = wrong / upper[i, i]
            # within the block at once, beyond it after the last column: one product instead of many
            left[:, i:stop] -= errors[:, i - start, None] * upper[i, i:stop]
        left[:, stop:] -= errors @ upper[start:stop, stop:]
        values.append(block)
        scales.append(scale)
        zeros.append(zero)
    return Blocks(
        format,
        weight.shape[1],
        torch.stack(values, 1).to(torch.uint8),
        torch.stack(scales, 1),
        torch.stack(zeros, 1).to(torch.uint8),
    )


def _inverse_root(moments: torch.Tensor) -> torch.Tensor:
    """Upper triangular U with U^T U = (moments + damping)^-1, float32."""
    h = moments.double().clone()
    mean = h.diagonal().mean()
    h.diagonal().add_(DAMPING * mean if mean > 0 else 1.0)
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(h))
    return torch.linalg.cholesky(inverse, upper=True).float()
