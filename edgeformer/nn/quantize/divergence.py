"""What a change of some weights costs: mean KL on a text, run from the first changed layer on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

import torch

from edgeformer.nn.blockwise import embedded, run_block
from edgeformer.nn.decoder import Decoder

LOGITS = 2**26  # numbers: fewer tokens where the vocabulary is large


class Divergence:
    """A decoder over a text in float32; it is changed while a divergence is measured, no longer."""

    @torch.no_grad()
    def __init__(self, decoder: Decoder, ids: torch.Tensor, tokens: int) -> None:
        """ids: int64 [sequences, length], of which about as many tokens are read as asked for."""
        self.decoder = decoder
        most = min(tokens, LOGITS // decoder.config.vocab_size)
        length = max(1, min(ids.shape[1], most))
        x, self.length = embedded(decoder, ids[: max(1, most // length), :length])
        self.states = [x]  # what each block is given
        for i in range(decoder.config.n_layers):
            self.states.append(self._block(i, self.states[-1]))
        self.wanted = decoder.logits(self.states[-1]).log_softmax(-1)  # [tokens, vocab]

    @torch.no_grad()
    def of(self, changed: Mapping[str, torch.Tensor]) -> float:
        """Mean KL(float32 || with these weights), nats a token. Names are those of parameters of
        blocks, or of an untied head."""
        layers = self.decoder.config.n_layers
        inside = [int(name.split(".")[1]) for name in changed if name.startswith("blocks.")]
        return self.under(self._with(changed), min(inside, default=layers))

    @torch.no_grad()
    def under(self, change: AbstractContextManager[None], first: int) -> float:
        """The same while a change of the decoder lasts, which begins in layer `first`."""
        with change:
            x = self.states[first]
            for i in range(first, self.decoder.config.n_layers):
                x = self._block(i, x)
            found = self.decoder.logits(x).log_softmax(-1)
        if not torch.isfinite(found).all():
            return float("inf")
        return float((self.wanted.exp() * (self.wanted - found)).sum(-1).mean())

    @contextmanager
    def _with(self, changed: Mapping[str, torch.Tensor]) -> Iterator[None]:
        kept = {name: self.decoder.get_parameter(name).data for name in changed}
        try:
            for name, weight in changed.items():
                self.decoder.get_parameter(name).data = weight
            yield
        finally:
            for name, weight in kept.items():
                self.decoder.get_parameter(name).data = weight

    def _block(self, i: int, x: torch.Tensor) -> torch.Tensor:
        return run_block(self.decoder, i, self.decoder.blocks[i], x, self.length)
