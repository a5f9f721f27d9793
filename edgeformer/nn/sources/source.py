"""Where a checkpoint comes from. Every source offers the same face, and reads weights lazily."""

from __future__ import annotations

import abc
import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import torch


class Stored(NamedTuple):
    """One tensor as the file has it."""

    shape: tuple[int, ...]
    precision: str  # the file's own word: BF16, Q4_K ...
    bytes: int


class Source(abc.ABC):
    """A checkpoint: its config, the names and shapes of its tensors, and one tensor at a time.

    `family` is the config's model type, `config_name` how errors call the config. Tokenizer
    files are named, not read; a GGUF has none and keeps its vocabulary in `metadata`.
    """

    kind: str
    where: str
    family: Any
    config: dict[str, Any]
    config_name: str = "config.json"
    tokenizer_files: dict[str, Path]
    metadata: dict[str, Any]
    chat_templates: dict[str, str]  # "default" is the one without a name
    eos_token_ids: list[int]
    sampling: dict[str, Any]  # by the names of SamplingParams: what its makers would have
    license: str | None
    own_family: Any = None  # a `Family` that only this source has

    @abc.abstractmethod
    def names(self) -> Iterable[str]: ...

    @abc.abstractmethod
    def stored(self, name: str) -> Stored:
        """What the file holds under this name, without reading it."""

    def shape(self, name: str) -> tuple[int, ...]:
        return self.stored(name).shape

    @abc.abstractmethod
    def load(self, name: str, out: torch.Tensor | None = None) -> torch.Tensor:
        """The tensor in float32, in memory of its own or in `out`."""

    @abc.abstractmethod
    def digest(self) -> str:
        """The sha256 of the weights, as hexadecimal text."""


def digest_of(files: list[Path]) -> str:
    """As `sha256sum FILE` says it; of several files, as `sha256sum FILE... | sha256sum` does."""
    lines = []
    for path in sorted(files):
        sha256 = hashlib.sha256()
        with open(path, "rb") as file:
            while block := file.read(1 << 20):
                sha256.update(block)
        lines.append(f"{sha256.hexdigest()}  {path.name}\n")
    if len(lines) == 1:
        return lines[0].split()[0]
    return hashlib.sha256("".join(lines).encode()).hexdigest()
