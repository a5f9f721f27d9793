"""Take columns out of a matrix and let the others make up for them, with no training.

The linear layer y = W h is given the second moments H of its inputs. Without a group S of inputs,
the W' over the others that changes y least on the calibration text costs, and is,

    cost(S) = tr(W_S (H^-1_SS)^-1 W_S^T)        W' = W - W_S (H^-1_SS)^-1 H^-1_S:

(Hassibi and Stork 1993, Optimal Brain Surgeon; for whole structures Kurtic, Frantar and Alistarh
2023, ZipLM, arXiv:2302.04089). The cheapest groups go first, and costs are computed anew after
each round, because groups that say the same may not all go.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

DAMPING = 0.01  # of H's mean diagonal, on all but the bias: inputs may never move, or move as one
ROUNDS = 64  # at most; one group at a time is no better and takes longer


class Eliminated(NamedTuple):
    """`error`: the mean square of what is lost of y, as a share of that of y, before damping."""

    kept: list[int]  # groups, in order
    weight: torch.Tensor  # [outputs, kept * size]
    bias: torch.Tensor | None
    error: float


def eliminate(
    weight: torch.Tensor, bias: torch.Tensor | None, moments: torch.Tensor, size: int, count: int
) -> Eliminated:
    """Take `count` groups of `size` neighbouring columns out of weight [outputs, inputs].

    moments: sum of h h^T, [inputs, inputs]; with a bias h has a last element that is always 1, and
    what a group gives on average goes into the bias.
    """
    inputs = weight.shape[1]
    whole = weight.double() if bias is None else torch.cat([weight, bias[:, None]], 1).double()
    h = moments.double()
    inverse = h.clone()
    inverse.diagonal()[:inputs] += h.diagonal()[:inputs].mean().clamp_min(1e-30) * DAMPING
    inverse = torch.linalg.inv(inverse)
    w, alive = whole.clone(), torch.ones(inputs // size, dtype=torch.bool)
    at_once = -(-count // ROUNDS)
    while (left := count - int((~alive).sum())) > 0:
        costs = _costs(w, inverse, size, len(alive)).masked_fill(~alive, float("inf"))
        gone = costs.topk(min(at_once, left), largest=False).indices
        columns = columns_of(gone, size)
        step = torch.linalg.solve(inverse[columns][:, columns], inverse[columns])  # [S, inputs]
        w -= w[:, columns] @ step
        inverse -= inverse[:, columns] @ step
        alive[gone] = False
        dead = columns_of((~alive).nonzero()[:, 0], size)
        w[:, dead] = 0.0
        inverse[dead, dead] = 1.0  # only so that no cost divides by 0
    kept = alive.nonzero()[:, 0]
    columns = columns_of(kept, size)
    error = _quadratic(whole - w, h) / max(_quadratic(whole, h), 1e-30)
    found = w[:, :inputs][:, columns].to(weight.dtype)
    new_bias = None if bias is None else w[:, inputs].to(bias.dtype)
    return Eliminated(kept.tolist(), found, new_bias, error)


def columns_of(groups: torch.Tensor, size: int) -> torch.Tensor:
    """Indices of all elements of these groups, in the groups' order."""
    return (groups[:, None] * size + torch.arange(size)).flatten()


def _costs(w: torch.Tensor, inverse: torch.Tensor, size: int, groups: int) -> torch.Tensor:
    """tr(W_S (H^-1_SS)^-1 W_S^T) of each group; [groups]."""
    inputs = groups * size
    if size == 1:
        return w[:, :inputs].square().sum(0) / inverse.diagonal()[:inputs]
    own = inverse[:inputs, :inputs].reshape(groups, size, groups, size)
    own = own.diagonal(dim1=0, dim2=2).permute(2, 0, 1)  # [groups, size, size]
    parts = w[:, :inputs].reshape(len(w), groups, size).permute(1, 2, 0)  # [groups, size, outputs]
    return (parts * torch.linalg.solve(own, parts)).sum((1, 2))


def _quadratic(w: torch.Tensor, h: torch.Tensor) -> float:
    return float(((w @ h) * w).sum())
