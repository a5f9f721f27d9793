"""A decoder of your own, a `torch.nn.Module`, as a source: its config in our fields and a table.

The table says for each of our tensors which of the module's it is: one name, several below one
another (`rows`), a transposed one (`transposed`) or any function of some (`made`); `{i}` is the
layer. Our names are those of `edgeformer.nn.decoder.Decoder`. docs/own-module.md is an example.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch

from edgeformer.errors import EdgeformerError
from edgeformer.nn.config import ModelConfig
from edgeformer.nn.decoder import Decoder
from edgeformer.nn.families.family import Family
from edgeformer.nn.families.load import load_decoder
from edgeformer.nn.families.recipe import Recipe, for_layers
from edgeformer.nn.sources.source import Source, Stored

TOLERANCE = 1e-4  # times max(1, |logit|)


class ModuleSource(Source):
    """See `Source`; `ignored` are regular expressions over tensors that are no weights."""

    kind = "module"
    family = "module"
    config_name = "the ModelConfig"

    def __init__(
        self,
        module: torch.nn.Module,
        config: ModelConfig,
        table: dict[str, Recipe | str],
        ignored: tuple[str, ...] = (),
    ) -> None:
        self.module, self.where = module, type(module).__name__
        self.tensors = {name: t.detach() for name, t in module.state_dict().items()}
        self.config: dict[str, Any] = {}
        self.metadata: dict[str, Any] = {}
        self.tokenizer_files: dict[str, Path] = {}
        self.chat_templates: dict[str, str] = {}
        self.eos_token_ids: list[int] = []
        self.sampling: dict[str, Any] = {}
        self.license = None
        recipes = for_layers(table, config.n_layers)
        self.own_family = Family(
            name=self.where,
            architectures=(),
            config_from=lambda keys: config,
            tensors=lambda config, keys: dict(recipes),
            prefix="",
            embedding="",
            head="",
            irrelevant=ignored,
        )

    def names(self) -> Iterable[str]:
        return self.tensors.keys()

    def stored(self, name: str) -> Stored:
        tensor = self.tensors[name]
        precision = str(tensor.dtype).removeprefix("torch.")
        return Stored(tuple(tensor.shape), precision, tensor.nbytes)

    def load(self, name: str, out: torch.Tensor | None = None) -> torch.Tensor:
        tensor = self.tensors[name]
        return tensor.float().clone() if out is None else out.copy_(tensor)

    def digest(self) -> str:
        sha256 = hashlib.sha256()
        for name in sorted(self.tensors):
            values = self.tensors[name].cpu().float().contiguous().numpy()
            sha256.update(f"{name} {values.shape}\n".encode())
            sha256.update(values)
        return sha256.hexdigest()


def decoder_of(
    module: torch.nn.Module,
    config: ModelConfig,
    table: dict[str, Recipe | str],
    ignored: tuple[str, ...] = (),
    logits: Callable[[torch.Tensor], torch.Tensor] | None = None,
) -> Decoder:
    """The module as a `Decoder`, after both have been run: their logits must agree everywhere.

    `logits` gives [B, T, vocab] for token ids [B, T]; by default the module itself does.
    """
    decoder = load_decoder(ModuleSource(module, config, table, ignored))
    was_training = module.training
    module.eval()
    try:
        _compare(logits or module, decoder)
    finally:
        module.train(was_training)
    return decoder


@torch.no_grad()
def _compare(reference: Callable[[torch.Tensor], torch.Tensor], decoder: Decoder) -> None:
    c = decoder.config
    generator = torch.Generator().manual_seed(0)
    length = min(c.max_positions, 64)
    ids = torch.randint(0, c.vocab_size, (2, length), generator=generator)
    theirs, ours = reference(ids), decoder(ids)
    if tuple(theirs.shape) != tuple(ours.shape):
        raise EdgeformerError(
            f"the module gives logits {list(theirs.shape)} for token ids {list(ids.shape)}; "
            f"expected {list(ours.shape)}: pass logits=, a function that gives them"
        )
    errors = (ours - theirs.float()).abs() / theirs.float().abs().clamp(min=1)
    worst = errors.amax((0, 2))  # [T]
    if not worst.max() <= TOLERANCE:  # NaN too
        first = int((~(worst <= TOLERANCE)).nonzero()[0])
        raise EdgeformerError(
            f"the module and its Decoder differ by {worst.max().item():.3g} (limit {TOLERANCE}), "
            f"first at position {first}: a field of the config or an entry of the table is wrong. "
            "Position 0 points at norms, activations or the order of rows, later ones at positions "
            "and windows"
        )
