"""What llama.cpp's conversion did to tensors, undone: Hugging Face's names, order and values."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch

from edgeformer.nn.sources.gguf_archs import Arch
from edgeformer.nn.sources.source import Stored

Change = Callable[[torch.Tensor], torch.Tensor]

COMPUTED = r"blk\.\d+\.attn_rot_embd\.weight"


class Heads(NamedTuple):
    queries: int
    keys: int
    width: int


class View(NamedTuple):
    """A tensor of the Hugging Face checkpoint: one of the file, perhaps changed."""

    name: str
    stored: Stored
    change: Change | None = None


def views(arch: Arch, heads: Heads, spans: dict[str, Stored]) -> dict[str, View]:
    """A name that the architecture does not know stays as it is: no layer will use it."""
    found: dict[str, View] = {}
    two_norms = any(name.endswith(".attn_norm_2.weight") for name in spans)
    for name, stored in spans.items():
        if re.fullmatch(COMPUTED, name):
            continue
        module, _, kind = name.rpartition(".")
        number = re.match(r"blk\.(\d+)\.", module)
        template = module if number is None else "blk.{i}." + module[number.end() :]
        theirs = arch.names.get(template)
        if arch.family == "falcon" and two_norms:
            theirs = _falcon_norm(template) or theirs
        if arch.family == "phi" and template == "blk.{i}.attn_qkv":
            theirs = "model.layers.{i}.self_attn.{part}_proj"
        if theirs is None or kind not in ("weight", "bias"):
            found[name] = View(name, stored)
            continue
        theirs = theirs.replace("{i}", number[1] if number else "")
        for ending, view in _split(arch, heads, View(name, stored), template, theirs, kind):
            found[ending] = view
    return found


def _falcon_norm(template: str) -> str | None:
    """With two norms a layer, `attn_norm` is the one before the feed-forward."""
    norms = {"blk.{i}.attn_norm": "ln_mlp", "blk.{i}.attn_norm_2": "ln_attn"}
    return f"transformer.h.{{i}}.{norms[template]}" if template in norms else None


def _split(
    arch: Arch, heads: Heads, view: View, template: str, theirs: str, kind: str
) -> Iterator[tuple[str, View]]:
    part = template.rpartition(".")[2]
    shape = view.stored.shape
    if "{part}" in theirs:  # phi-2 files have one projection, its checkpoint has three
        queries, keys = heads.queries * heads.width, heads.keys * heads.width
        for name, start, count in (("q", 0, queries), ("k", queries, keys), ("v", -keys, keys)):
            stored = view.stored._replace(shape=(count, *shape[1:]))
            change = _rows(start % max(shape[0], 1), count)
            yield f"{theirs.replace('{part}', name)}.{kind}", View(view.name, stored, change)
    elif arch.family == "stablelm" and part in ("attn_q_norm", "attn_k_norm") and len(shape) == 2:
        name = theirs.replace(part[5:], part[5] + "_layernorm.norms")
        for head in range(min(shape[0], 1 << 10)):
            stored = view.stored._replace(shape=shape[1:])
            yield f"{name}.{head}.{kind}", View(view.name, stored, _row(head))
    else:
        stored = view.stored
        change = _change(arch, heads, part, kind)
        if change is _transpose:
            stored = stored._replace(shape=shape[::-1])
        yield f"{theirs}.{kind}", View(view.name, stored, change)


def _change(arch: Arch, heads: Heads, part: str, kind: str) -> Change | None:
    if arch.permuted and part in ("attn_q", "attn_k"):
        return _unpermute(heads.queries if part == "attn_q" else heads.keys)
    if part == "attn_qkv" and arch.fused:
        return _fuse_heads(heads) if arch.fused == "head" else _fuse_groups(heads)
    if arch.plus_one and kind == "weight" and part.endswith("norm"):
        return lambda w: w - 1
    layer = part in ("attn_qkv", "attn_output", "ffn_up", "ffn_down")
    if arch.transposed and kind == "weight" and layer:
        return _transpose
    return None


def _transpose(w: torch.Tensor) -> torch.Tensor:
    return w.t()


def _rows(start: int, count: int) -> Change:
    return lambda w: w[start : start + count]


def _row(index: int) -> Change:
    return lambda w: w[index]


def _unpermute(heads: int) -> Change:
    """llama.cpp turns pairs of neighbours, transformers a half with the other half."""

    def change(w: torch.Tensor) -> torch.Tensor:
        pairs = w.reshape(heads, -1, 2, *w.shape[1:])  # [heads, head_dim / 2, 2, ...]
        return pairs.transpose(1, 2).reshape(w.shape)

    return change


def _fuse_heads(heads: Heads) -> Change:
    def change(w: torch.Tensor) -> torch.Tensor:
        by_part = w.reshape(3, heads.queries, -1, *w.shape[1:])
        return by_part.transpose(0, 1).reshape(w.shape)

    return change


def _fuse_groups(heads: Heads) -> Change:
    def change(w: torch.Tensor) -> torch.Tensor:
        sizes = [n * heads.width for n in (heads.queries, heads.keys, heads.keys)]
        parts = [p.reshape(heads.keys, -1, *w.shape[1:]) for p in w.split(sizes)]
        return torch.cat(parts, 1).reshape(w.shape)

    return change
