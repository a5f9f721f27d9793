"""How far a reduced precision is from float32 on real text: perplexity, KL divergence, top-1."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime as ort
import torch

from edgeformer.errors import CheckFailed, EdgeformerError
from edgeformer.nn.config import ModelConfig
from edgeformer.nn.decoder import Decoder

WINDOW = 256  # tokens that are read in one go; each begins with an empty cache
ROWS = 32  # of logits that are compared at once
LEAST_TOKENS = 64  # predicted ones: below, every figure is noise

# Logits of every token of a window: ids [T] -> float32 [T, vocab].
Logits = Callable[[Sequence[int]], np.ndarray]


@dataclass(frozen=True)
class Quality:
    """`kl`: the mean of KL(float32 || this) in nats. `top1`: share of equal likeliest tokens."""

    tokens: int  # that were predicted
    reference_perplexity: float
    perplexity: float
    kl: float
    top1: float

    @property
    def loss(self) -> float:
        """By how much the perplexity is above that of float32, as a share of it."""
        return self.perplexity / self.reference_perplexity - 1.0


def compare(
    reference: Logits,
    candidate: Logits,
    windows: Sequence[Sequence[int]],
    progress: Callable[[int], None] = lambda done: None,
) -> Quality:
    """Read every window with both; each token but a window's first is predicted once.

    Raises CheckFailed where either gives anything that is no number.
    """
    tokens, nats, reference_nats, divergence, equal = 0, 0.0, 0.0, 0.0, 0
    for done, ids in enumerate(windows):
        theirs, ours = reference(ids), candidate(ids)
        for start in range(0, len(ids) - 1, ROWS):  # a whole window of a large vocabulary is much
            rows = slice(start, min(start + ROWS, len(ids) - 1))
            p = _log_probabilities("float32", theirs, rows)
            q = _log_probabilities("the reduced precision", ours, rows)
            target = torch.tensor(ids[rows.start + 1 : rows.stop + 1])[:, None]
            nats -= float(q.gather(1, target).sum(dtype=torch.float64))
            reference_nats -= float(p.gather(1, target).sum(dtype=torch.float64))
            equal += int((p.argmax(-1) == q.argmax(-1)).sum())
            divergence += float((p.exp() * (p - q)).sum(-1).sum(dtype=torch.float64))
            tokens += len(target)
        progress(done + 1)
    if tokens < LEAST_TOKENS:
        raise EdgeformerError(
            f"the text for the quality check predicts {tokens} tokens, at least {LEAST_TOKENS} are "
            "needed; give a longer one: --eval-text FILE"
        )
    return Quality(
        tokens,
        math.exp(min(700.0, reference_nats / tokens)),
        math.exp(min(700.0, nats / tokens)),
        divergence / tokens,
        equal / tokens,
    )


def windows_of(ids: Sequence[int], length: int, most_tokens: int) -> list[list[int]]:
    """Whole windows from the start of a text, and what is left if it is all there is."""
    ids = list(ids[:most_tokens])
    whole = len(ids) // length
    if not whole:
        return [ids] if len(ids) > 1 else []
    return [ids[i * length : (i + 1) * length] for i in range(whole)]


def torch_logits(decoder: Decoder) -> Logits:
    """Of a decoder, without a cache."""

    def logits(ids: Sequence[int]) -> np.ndarray:
        with torch.inference_mode():
            return decoder(torch.tensor([list(ids)]))[0].numpy()

    return logits


def graph_logits(path: Path, config: ModelConfig, table: np.ndarray | None = None) -> Logits:
    """Of a prefill graph in ONNX Runtime, over an empty cache. `table`: of the embedding, where the
    graph takes its rows in place of token ids."""
    options = ort.SessionOptions()
    options.log_severity_level = 3
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    cache = [value.name for value in session.get_inputs() if value.name.startswith("past.")]
    empty = np.zeros((1, config.kv_width), np.float32)

    def logits(ids: Sequence[int]) -> np.ndarray:
        positions = np.arange(len(ids), dtype=np.int32)
        inputs = dict.fromkeys(cache, empty)
        inputs |= {"positions": positions, "rows": positions}
        if table is None:
            inputs["token_ids"] = np.array(ids, np.int32)
        else:
            inputs["embeddings"] = table[list(ids)]
        inputs["past_positions"] = np.full(1, -1, np.int32)
        return session.run(["logits"], inputs)[0]

    return logits


def _log_probabilities(what: str, logits: np.ndarray, rows: slice) -> torch.Tensor:
    """float32 [rows, vocab]; the last token of a window predicts nothing that is known."""
    found = torch.from_numpy(logits[rows]).float()
    if not torch.isfinite(found).all():
        bad = rows.start + int((~torch.isfinite(found)).any(-1).nonzero()[0])
        raise CheckFailed(f"{what} gives logits that are no numbers, first after token {bad + 1}")
    return found.log_softmax(-1)
