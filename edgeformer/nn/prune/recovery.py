"""What a pruned decoder learns from: the text, and the decoder that it was cut from."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from edgeformer.nn.decoder import Decoder
from edgeformer.nn.trainer import Objective, next_token


def distillation(teacher: Decoder, share: float) -> Objective:
    """share * KL(teacher || decoder) + (1 - share) * surprise at the next token, both in nats.

    The divergence is over whole distributions (Hinton et al. 2015, arXiv:1503.02531, at
    temperature 1; Muralidharan et al. 2024, Minitron, arXiv:2407.14679, for pruned models).
    """
    if share == 0.0:
        return next_token

    def objective(logits: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            theirs = teacher(ids[:, :-1]).float().flatten(0, 1).log_softmax(-1)
        ours = logits.float().flatten(0, 1).log_softmax(-1)  # [B * T, vocab]
        apart = F.kl_div(ours, theirs, log_target=True, reduction="batchmean")
        return apart if share == 1.0 else share * apart + (1.0 - share) * next_token(logits, ids)

    return objective
