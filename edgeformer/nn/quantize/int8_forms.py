"""What a product in int8 computes, its inputs rounded anew at each step: three forms of it."""

from __future__ import annotations

import enum

import torch

MOST = 127  # of an int8; -128 is not used, so that a weight and its negative are alike
FINER = 2 * MOST  # what is left of a number is half a step at most
SMALLEST = 1e-30  # numbers that nothing is divided by


class Form(enum.Enum):
    """How exact a product's inputs are. In a table's lookup nothing is rounded but the table."""

    PLAIN = "one scale for all rows of a step: one node"
    ROWS = "a scale for each row: five nodes more; one token's huge inputs cost others nothing"
    FINE = "16 bits, in two parts of 8, and a scale for each row: fifteen nodes more"


def int8_dense(weight: torch.Tensor) -> torch.Tensor:
    """float32 [outputs, inputs]: what its int8 steps stand for."""
    scales = weight.abs().amax(1, keepdim=True) / MOST
    scales = torch.where(scales < SMALLEST, torch.ones_like(scales), scales)
    return (weight / scales).round() * scales


def rounded(x: torch.Tensor, form: Form) -> torch.Tensor:
    """[rows, inputs] as a product of this form takes them, all rows in one step."""
    if form is Form.PLAIN:
        low, high = x.min().clamp(max=0.0), x.max().clamp(min=0.0)
        scale = ((high - low) / 255).clamp(min=SMALLEST)
        zero = (-low / scale).round()
        return ((x / scale).round() + zero).clamp(0, 255).sub(zero) * scale
    most = x.abs().amax(1, keepdim=True).clamp(min=SMALLEST)
    if form is Form.ROWS:
        return rounded(x / most, Form.PLAIN) * most
    scale = most / (MOST * FINER)
    return (x / scale).round() * scale
