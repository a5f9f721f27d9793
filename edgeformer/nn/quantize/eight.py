"""8 bits in blocks, whose products round their inputs to 8 bits too: blocks of 64, or of 32.

A block of 64 inputs has half the scales of two of 32, and is read faster. What it costs is mostly
that of the inputs, of which one large channel takes the steps of 63 others. Smoothing them first
(see `int8_smooth`) makes blocks of 64 better than blocks of 32 without it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import nn

from edgeformer.nn.blockwise import MOST_AT_ONCE, check_finite, embedded, inputs_of, run_block
from edgeformer.nn.decoder import Decoder
from edgeformer.nn.quantize.blocks import Blocks, Format, in_blocks
from edgeformer.nn.quantize.decoder import quantize_decoder
from edgeformer.nn.quantize.grid import on_grid
from edgeformer.nn.quantize.int8 import untied
from edgeformer.nn.quantize.int8_smooth import Fold, divide, factors, folds, head_fold
from edgeformer.nn.quantize.search import nearest

BLOCKS = SMALL, LARGE = 32, 64
SHARE = 0.5  # of the inputs' size in a factor; of what was tried the best (docs/quantization.md)
LEVELS = 127  # of a rounded input, of either sign
TOKENS = 2**25  # logits, on which the two are compared
TABLES = ("embedding.weight", "head.weight")


@dataclass(frozen=True)
class EightBits:
    """Blocks by parameter name, and what smoothing changed beside them.

    folded: float32 parameters that take the place of the decoder's. rows: what a row of the
    embedding is to be divided by once it is looked up, float32 [d_model], where the head's inputs
    were smoothed and the table is the head's too. kl: of each block size that was measured, on the
    calibration text.
    """

    blocks: dict[str, Blocks]
    folded: dict[str, torch.Tensor] = field(default_factory=dict)
    rows: torch.Tensor | None = None
    kl: dict[int, float] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """As in `n8 b64, inputs smoothed; KL on the calibration text 0.0025, in blocks of 32
        0.0045`, the latter where it was measured."""
        largest = max(found.format.block for found in self.blocks.values())
        text = Format(8, largest).name + (", inputs smoothed" if self.folded else "")
        if self.kl:
            size = SMALL if largest == LARGE else LARGE
            own, other = self.kl[largest], self.kl[size]
            text += f"; KL on the calibration text {own:.4f}, in blocks of {size} {other:.4f}"
        return text


@torch.no_grad()
def in_8_bits(
    decoder: Decoder,
    ids: torch.Tensor,
    block: int | None = None,
    progress: Callable[[str], None] = lambda name: None,
) -> EightBits:
    """Quantize all matrices; the decoder is left as it is.

    ids: int64 [sequences, length], the calibration text. block: 32, or 64 with smoothed inputs;
    None: whichever is nearer to float32 on that text, and 32 where the matrices of a layer lie on
    such a grid already (Q8_0), whose numbers then stay bit for bit.
    """
    check_finite(decoder)
    if block is None and (not _some_large(decoder) or _on_a_grid(decoder)):
        block = SMALL
    if block == SMALL:
        return EightBits(_plain(decoder, ids, progress))
    own, rows = _smoothed(decoder, ids, progress)
    large = _quantized(own, decoder.config.tie_embeddings)
    found = EightBits(large, _folded(decoder, own), rows)
    if block == LARGE:
        return found
    most = max(1, TOKENS // decoder.config.vocab_size)
    text = ids[: max(1, most // ids.shape[1]), :most]
    progress(f"against float32 in blocks of {LARGE}")
    wanted = decoder(text).log_softmax(-1)
    kl = {LARGE: _divergence(wanted, own, large, text)}
    small = _plain(decoder, ids, progress)
    progress(f"against float32 in blocks of {SMALL}")
    kl[SMALL] = _divergence(wanted, untied(decoder), small, text)
    if kl[LARGE] <= kl[SMALL]:
        return dataclasses.replace(found, kl=kl)
    return EightBits(small, kl=kl)


def _plain(
    decoder: Decoder, ids: torch.Tensor, progress: Callable[[str], None]
) -> dict[str, Blocks]:
    """The nearest values in blocks of 32. So many bits that no method beats them: the demo model
    has a KL of 0.00019 with GPTQ and of 0.00021 without."""
    return quantize_decoder(
        decoder, lambda name: Format(8, SMALL), ids, "nearest", progress, keep=True, grids=True
    )


def _format(weight: torch.Tensor) -> Format:
    return Format(8, SMALL if weight.shape[1] % LARGE else LARGE)


def _matrices(decoder: Decoder) -> dict[str, torch.Tensor]:
    """The weights of all products in layers, by name."""
    modules = decoder.blocks.named_modules(prefix="blocks")
    return {f"{n}.weight": m.weight for n, m in modules if isinstance(m, nn.Linear)}


def _some_large(decoder: Decoder) -> bool:
    return any(_format(w).block == LARGE for w in _matrices(decoder).values())


def _on_a_grid(decoder: Decoder) -> bool:
    return any(on_grid(w, Format(8)) is not None for w in _matrices(decoder).values())


def _smoothed(
    decoder: Decoder, ids: torch.Tensor, progress: Callable[[str], None]
) -> tuple[Decoder, torch.Tensor | None]:
    """A copy whose head is a matrix of its own, and by what that table's rows are too large to be
    the embedding's."""
    own, c = untied(decoder), decoder.config
    states = [embedded(own, part) for part in ids.split(MOST_AT_ONCE)]
    for i, block in enumerate(own.blocks):
        progress(f"smooth layer {i + 1} of {c.n_layers}")
        names = [f"blocks.{i}.{n}" for n, m in block.named_modules() if isinstance(m, nn.Linear)]
        with inputs_of(own, names) as parts:
            states = [(run_block(own, i, block, x, length), length) for x, length in states]
        sizes = {name: _size(torch.cat(parts[name])) for name in names}
        for fold in folds(c, i):
            by = _divided(own, fold, sizes[fold.products[0]])
            sizes |= {name: sizes[name] / by for name in fold.products}
    rows = None
    for fold in head_fold(c):
        rows = _divided(own, fold, _size(own.final_norm(torch.cat([x for x, _ in states]))))
    return own, rows if c.tie_embeddings else None


def _size(x: torch.Tensor) -> torch.Tensor:
    """[tokens, inputs] -> [inputs], the root of each one's mean square."""
    return x.square().mean(0).sqrt()


def _divided(own: Decoder, fold: Fold, size: torch.Tensor) -> torch.Tensor:
    weights = [own.get_submodule(name).weight for name in fold.products]
    by = factors(own.config, fold, size, weights, SHARE)
    divide(own, fold, by)
    return by


def _quantized(own: Decoder, tied: bool) -> dict[str, Blocks]:
    weights = dict(_matrices(own))
    weights |= {"embedding.weight": own.head.weight if tied else own.embedding.weight}
    if not tied:
        weights["head.weight"] = own.head.weight
    return {name: nearest(weight, _format(weight)) for name, weight in weights.items()}


def _folded(decoder: Decoder, own: Decoder) -> dict[str, torch.Tensor]:
    """Parameters that smoothing changed, and that are no matrices in blocks."""
    before, blocks = dict(decoder.named_parameters()), {*_matrices(own), *TABLES}
    return {
        name: weight.detach()
        for name, weight in own.named_parameters()
        if name not in blocks and not torch.equal(weight, before[name])
    }


def _divergence(
    wanted: torch.Tensor, own: Decoder, blocks: dict[str, Blocks], text: torch.Tensor
) -> float:
    """Mean KL from `wanted` of a decoder with these blocks, its inputs rounded, nats a token. The
    decoder is ours to change; its embedding stays as it is."""
    tied = "head.weight" not in blocks
    for name, found in blocks.items():
        if name == "embedding.weight" and tied:
            own.head.weight.data = found.dense()
        elif name != "embedding.weight":
            own.get_parameter(name).data = found.dense()
    with _rounded(own, blocks):
        found = own(text).log_softmax(-1)
    if not torch.isfinite(found).all():
        return float("inf")
    return float((wanted.exp() * (wanted - found)).sum(-1).mean())


@contextmanager
def _rounded(own: Decoder, blocks: dict[str, Blocks]) -> Iterator[None]:
    """Inside, products round what they are given as MatMulNBits does at accuracy level 4."""
    handles = []
    for name in _matrices(own):
        size = blocks[name].format.block
        handles.append(
            own.get_submodule(name.removesuffix(".weight")).register_forward_pre_hook(
                lambda _, x, size=size: (rounded(x[0], size),)
            )
        )
    size = blocks.get("head.weight", blocks["embedding.weight"]).format.block
    last = own.final_norm if own.config.final_norm else own.blocks[-1]
    handles.append(last.register_forward_hook(lambda _, x, y: rounded(y, size)))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def rounded(x: torch.Tensor, block: int) -> torch.Tensor:
    """[tokens, inputs] in steps of a 127th of the largest magnitude of each block."""
    parts = in_blocks(x, block)  # [tokens, blocks, block]
    scales = parts.abs().amax(-1, keepdim=True) / LEVELS
    scales = torch.where(scales > 0, scales, torch.ones_like(scales))
    return ((parts / scales).round_() * scales).flatten(1)[:, : x.shape[1]]
