"""A weight matrix in blocks: small integers, and a scale (and zero point) for each block.

A block is `Format.block` neighbouring inputs of one output: w[n, k] = scale * (value - zero). The
layout is that of ONNX Runtime's operator MatMulNBits (com.microsoft), so that what is measured in
PyTorch is what runs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from edgeformer.errors import EdgeformerError

BLOCKS = (16, 32, 64, 128, 256)  # of MatMulNBits


@dataclass(frozen=True)
class Format:
    """`symmetric`: every zero point is the middle, 2 ** (bits - 1), and is not stored."""

    bits: int
    block: int = 32
    symmetric: bool = True

    def __post_init__(self) -> None:
        if self.bits not in (4, 8) or self.block not in BLOCKS:
            raise EdgeformerError(
                f"weights of {self.bits} bits in blocks of {self.block}: bits must be 4 or 8, the "
                f"block one of {', '.join(map(str, BLOCKS))}"
            )

    @property
    def most(self) -> int:
        """The largest value; the smallest is 0."""
        return 2**self.bits - 1

    @property
    def middle(self) -> int:
        return 2 ** (self.bits - 1)

    @property
    def name(self) -> str:
        return f"n{self.bits} b{self.block}" + ("" if self.symmetric else " with zero points")


@dataclass(frozen=True)
class Blocks:
    """A quantized [outputs, inputs] matrix. Inputs are padded to whole blocks with zeros."""

    format: Format
    inputs: int
    values: torch.Tensor  # uint8 [outputs, blocks, block]
    scales: torch.Tensor  # float32 [outputs, blocks]
    zeros: torch.Tensor  # uint8 [outputs, blocks]: the middle everywhere if symmetric
    offsets: torch.Tensor | None = None  # float32 [outputs, blocks], added to every weight

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.values), self.inputs

    @property
    def nbytes(self) -> int:
        """What is stored: values, float32 scales, and zero points where there are any."""
        outputs, blocks, block = self.values.shape
        zeros = 0 if self.format.symmetric else outputs * -(-blocks * self.format.bits // 8)
        numbers = 1 if self.offsets is None else 2  # float32 ones of each block
        return outputs * blocks * (block * self.format.bits // 8 + 4 * numbers) + zeros

    def dense(self) -> torch.Tensor:
        """float32 [outputs, inputs]: the matrix that these numbers stand for."""
        steps = self.values.float() - self.zeros.float()[..., None]
        weights = steps * self.scales[..., None]
        if self.offsets is not None:
            weights = weights + self.offsets[..., None]
        return weights.flatten(1)[:, : self.inputs]

    def packed(self) -> dict[str, np.ndarray]:
        """The inputs B, scales and zero_points of MatMulNBits, the last if it is needed.

        That operator knows no offsets (see `offsets`).

        B is uint8 [outputs, blocks, block * bits / 8], of two values of 4 bits the first one low;
        scales float32 [outputs * blocks]; zero_points uint8 [outputs * ceil(blocks * bits / 8)].
        """
        found = {
            "B": _pack(self.values, self.format.bits),
            "scales": self.scales.reshape(-1).numpy(),
        }
        if not self.format.symmetric:
            found["zero_points"] = _pack(self.zeros, self.format.bits).reshape(-1)
        return found


def in_blocks(weight: torch.Tensor, block: int) -> torch.Tensor:
    """[outputs, inputs] -> float32 [outputs, blocks, block], zeros behind the last input."""
    padding = -weight.shape[1] % block
    weight = torch.nn.functional.pad(weight.detach().float(), (0, padding))
    return weight.reshape(len(weight), -1, block)


def _pack(values: torch.Tensor, bits: int) -> np.ndarray:
    """uint8 along the last axis, two to a byte where they have 4 bits, an odd last one alone."""
    array = values.numpy()
    if bits == 8:
        return array
    if array.shape[-1] % 2:
        array = np.concatenate([array, np.zeros_like(array[..., :1])], -1)
    return array[..., 0::2] | (array[..., 1::2] << 4)
