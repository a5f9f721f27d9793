"""From weights to blocks, each block for itself: to the nearest value, or with a searched scale."""

from __future__ import annotations

import torch

from edgeformer.nn.quantize.blocks import Blocks, Format, in_blocks

SHRUNK = torch.linspace(1.0, 0.6, 17).tolist()  # shares of the full range that are tried
ROUNDS = 2  # of fitting the scale to the values, and the values to the scale


def nearest(weight: torch.Tensor, format: Format) -> Blocks:
    """The scale that just holds a block's largest weight, and the nearest values.

    A symmetric block goes from -middle to middle - 1 steps; its largest weight lies on the longer
    side, whatever its sign, as in llama.cpp's Q4_0.
    """
    parts = in_blocks(weight, format.block)
    return _blocks(weight, format, *_rounded(parts, format, *_ranges(parts, format)))


def searched(
    weight: torch.Tensor, format: Format, importance: torch.Tensor | None = None
) -> Blocks:
    """Of several ranges for each block the one with the least squared error of the weights.

    importance: [inputs], for example the mean square of each input on a calibration text; None:
    all inputs count alike. A narrower range cuts off the largest weights and holds all others
    better. The best one's scale is then fitted by least squares.
    """
    parts = in_blocks(weight, format.block)
    share = _shares(parts, weight.shape[1], importance)
    scales, zeros = _ranges(parts, format)
    best = None
    for shrunk in SHRUNK:
        found = _rounded(parts, format, scales * shrunk, zeros)
        for _ in range(ROUNDS):
            found = _kept(found, _fitted(parts, format, found, share), parts, share)
        best = found if best is None else _kept(best, found, parts, share)
    return _blocks(weight, format, *best)


Found = tuple[torch.Tensor, torch.Tensor, torch.Tensor]  # values, scales, zeros


def _ranges(parts: torch.Tensor, format: Format) -> tuple[torch.Tensor, torch.Tensor]:
    """Scales and zero points, float32 [outputs, blocks], of blocks that are cut off nowhere."""
    if format.symmetric:
        index = parts.abs().argmax(-1, keepdim=True)
        scales = parts.gather(-1, index)[..., 0] / -format.middle
        zeros = torch.full_like(scales, format.middle)
    else:
        low, high = parts.amin(-1).clamp(max=0), parts.amax(-1).clamp(min=0)
        scales = (high - low) / format.most
        zeros = torch.where(scales > 0, -low / scales, torch.zeros_like(scales)).round()
    # A block of zeros, or of numbers too small to divide by, is all zero points.
    return torch.where(scales.abs() < 1e-30, torch.ones_like(scales), scales), zeros


def _rounded(
    parts: torch.Tensor, format: Format, scales: torch.Tensor, zeros: torch.Tensor
) -> Found:
    values = (parts / scales[..., None]).round_().add_(zeros[..., None]).clamp_(0, format.most)
    return values, scales, zeros


def _fitted(parts: torch.Tensor, format: Format, found: Found, share: torch.Tensor) -> Found:
    """The best scale for these values (weighted least squares), then the values for this scale."""
    values, scales, zeros = found
    steps = values - zeros[..., None]
    norm = (share * steps * steps).sum(-1)
    fit = (share * steps * parts).sum(-1) / norm.clamp(min=1e-30)
    fit = torch.where((norm > 0) & (fit.abs() > 1e-30), fit, scales)
    return _rounded(parts, format, fit, zeros)


def _kept(one: Found, other: Found, parts: torch.Tensor, share: torch.Tensor) -> Found:
    """Block by block the better one; the first where they are equal."""
    better = (_error(other, parts, share) < _error(one, parts, share))[..., None]
    values = torch.where(better, other[0], one[0])
    return values, *(torch.where(better[..., 0], b, a) for a, b in zip(one[1:], other[1:]))


def _error(found: Found, parts: torch.Tensor, share: torch.Tensor) -> torch.Tensor:
    values, scales, zeros = found
    wrong = (values - zeros[..., None]) * scales[..., None] - parts
    return (share * wrong * wrong).sum(-1)


def _shares(parts: torch.Tensor, inputs: int, importance: torch.Tensor | None) -> torch.Tensor:
    """float32 [1, blocks, block]; what is behind the last input counts nothing."""
    share = torch.ones(inputs) if importance is None else importance.float()
    # An input that was never seen still counts a little: another text may have it.
    share = share + 1e-3 * share.mean() + 1e-30
    return in_blocks(share[None], parts.shape[-1])


def _blocks(
    weight: torch.Tensor,
    format: Format,
    values: torch.Tensor,
    scales: torch.Tensor,
    zeros: torch.Tensor,
) -> Blocks:
    return Blocks(
        format, weight.shape[1], values.to(torch.uint8), scales.float(), zeros.to(torch.uint8)
    )
