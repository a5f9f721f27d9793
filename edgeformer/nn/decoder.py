"""The model: token ids in, logits out, without a cache.

This path trains, and it is the reference that every cached graph is compared with. The cached
step (`step.py`) runs the same modules and replaces only how attention finds its keys.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

from edgeformer.errors import EdgeformerError
from edgeformer.nn.config import ModelConfig
from edgeformer.nn.layers import Block, Linear, Norm, Rotary, in_type_of
from edgeformer.nn.rope import rope_tables


class Decoder(nn.Module):
    """A decoder-only transformer over one `ModelConfig`; weights start random (GPT-2's scheme)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        c = self.config = config
        self.dtype = torch.float32  # of activations and cache, where nothing is pinned (`pins.py`)
        self.float32_stream = False  # whether the residual stream is pinned
        self.embedding = nn.Embedding(c.vocab_size, c.d_model)
        if c.position == "learned":
            self.position_embedding = nn.Embedding(c.max_positions + c.position_offset, c.d_model)
        if c.embedding_norm:
            self.embedding_norm = Norm(c, c.d_model)
        self.blocks = nn.ModuleList(Block(c, i) for i in range(c.n_layers))
        if c.final_norm:
            self.final_norm = Norm(c, c.d_model)
        if not c.tie_embeddings:
            self.head = Linear(c.d_model, c.vocab_size, bias=False)
        self.head_bias = nn.Parameter(torch.zeros(c.vocab_size)) if c.head_bias else None
        self.dropout = nn.Dropout(c.dropout)
        self.add_tables()
        self.reset_parameters()

    def forward(self, token_ids: torch.Tensor) -> torch.Tensor:
        """Logits of every position: int [B, T] -> float32 [B, T, vocab]."""
        batch, length = token_ids.shape
        if length > self.config.max_positions:
            raise EdgeformerError(
                f"the sequence has {length} tokens, but the model has max_positions "
                f"{self.config.max_positions}; shorten it, or make a model with more"
            )
        positions = torch.arange(length, device=token_ids.device).repeat(batch)  # [B * T]
        x = self.dropout(self.embed(token_ids.reshape(-1), positions))
        attend = FullAttention(self, batch, length)
        rotary = self.rotary(positions)
        for i, block in enumerate(self.blocks):
            x = block(x, rotary[self.config.layer_rope(i)], attend)
        return self.logits(x).reshape(batch, length, -1)

    def embed(self, token_ids: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """[T] -> [T, d_model], with absolute positions where the config has them."""
        return self.embed_rows(self.embedding(token_ids), positions)

    def embed_rows(self, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """The same from rows of the embedding's table, [T, d_model]."""
        c = self.config
        stream = torch.float32 if self.float32_stream else self.dtype
        x = x if x.dtype == stream else x.to(stream)
        if c.embedding_multiplier != 1.0:
            x = x * c.embedding_multiplier
        if c.position == "learned":
            shifted = positions + c.position_offset if c.position_offset else positions
            x = x + in_type_of(self.position_embedding(shifted), x)
        elif c.position == "sinusoidal":
            x = x + F.embedding(positions, self.sinusoids).to(x.dtype)
        return in_type_of(self.embedding_norm(x), x) if c.embedding_norm else x

    def rotary(self, positions: torch.Tensor) -> dict[str, Rotary]:
        """float32 cos and sin rows of positions, [T, 1, width], for each kind of layer."""
        rows: dict[str, Rotary] = {"none": None}
        for kind in ("global", "local"):
            if hasattr(self, f"{kind}_cos"):
                tables = getattr(self, f"{kind}_cos"), getattr(self, f"{kind}_sin")
                cos, sin = (F.embedding(positions, t)[:, None] for t in tables)
                rows[kind] = cos, sin
        return rows

    def logits(self, x: torch.Tensor) -> torch.Tensor:
        """[T, d_model] or [1, T, d_model] -> float32 [T, vocab]."""
        c = self.config
        x = self.final_norm(x) if c.final_norm else x
        x = x if x.dim() == 2 else x.reshape(-1, c.d_model)
        weight = self.embedding.weight if c.tie_embeddings else self.head.weight
        x = in_type_of(x, weight)
        bias = x.new_zeros(1) if self.head_bias is None else in_type_of(self.head_bias, x)
        # one Gemm over the table as it lies: a transposed copy would store it twice
        logits = torch.addmm(bias, x, weight.t())
        logits = logits if logits.dtype == torch.float32 else logits.float()
        if c.logit_multiplier != 1.0:
            logits = logits * c.logit_multiplier
        if c.logit_soft_cap is not None:
            logits = torch.tanh(logits / c.logit_soft_cap) * c.logit_soft_cap
        return logits

    @torch.no_grad()
    def reset_parameters(self, std: float = 0.02, generator: torch.Generator | None = None) -> None:
        """Normal weights, no biases; the two projections that feed the residual are narrower."""
        for name, module in self.named_modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                narrow = name.endswith(("attention.out", "ff.down"))
                scale = std / math.sqrt(2 * self.config.n_layers) if narrow else std
                module.weight.normal_(0.0, scale, generator=generator)
            if isinstance(module, nn.Linear) and module.bias is not None:
                module.bias.zero_()

    def add_tables(self) -> None:
        """Compute the position tables anew; needed where the module was made on `meta`."""
        c = self.config
        used = {c.layer_rope(i) for i in range(c.n_layers)}
        for kind, rope in (("global", c.rope), ("local", c.local_rope)):
            if kind in used:
                cos, sin = rope_tables(rope, c.head_dim, c.max_positions)
                self.register_buffer(f"{kind}_cos", cos, persistent=False)
                self.register_buffer(f"{kind}_sin", sin, persistent=False)
        if c.position == "sinusoidal":
            table = sinusoidal_table(c.max_positions, c.d_model)
            self.register_buffer("sinusoids", table, persistent=False)
        if c.position == "alibi" and c.alibi_bfloat16:
            self.register_buffer("biases", rounded_alibi(c), persistent=False)
        elif c.position == "alibi":
            slopes = alibi_slopes(c.n_heads) * c.alibi_scale
            self.register_buffer("slopes", slopes, persistent=False)

    def _apply(self, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> Decoder:
        """Move and cast as asked, but leave position tables in float32: half is too coarse."""
        self.dtype = fn(torch.empty(0, dtype=self.dtype)).dtype
        tables = dict(self.named_buffers(recurse=False))
        super()._apply(fn, recurse)
        for name, table in tables.items():
            moved = getattr(self, name)
            if moved.dtype != table.dtype:
                setattr(self, name, table.to(moved.device))
        return self


class FullAttention:
    """Attention of a whole sequence to itself; the masks are made once for all layers."""

    def __init__(self, decoder: Decoder, batch: int, length: int) -> None:
        self.config, self.batch, self.cached = decoder.config, batch, decoder.dtype
        positions = torch.arange(length, device=decoder.embedding.weight.device)
        self.distance = positions[:, None] - positions[None, :]  # [T, T], query minus key
        self.slopes = getattr(decoder, "slopes", None)
        self.biases = getattr(decoder, "biases", None)
        self.masks: dict[int | None, torch.Tensor] = {}

    def __call__(
        self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor
    ) -> torch.Tensor:
        c = self.config
        if self.cached == torch.float16 and k.dtype != self.cached:  # as a cache rounds them
            k, v = (t.to(self.cached).to(t.dtype) for t in (k, v))
        q, k, v = (  # [B, heads, T, head_dim]
            t.reshape(self.batch, -1, *t.shape[1:]).transpose(1, 2) for t in (q, k, v)
        )
        groups = c.n_heads // c.n_kv_heads
        k, v = (t.repeat_interleave(groups, 1) if groups > 1 else t for t in (k, v))
        window = c.layer_window(layer)
        plain = window is None and c.position != "alibi" and c.attention_soft_cap is None
        if plain and q.dtype != torch.float16:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=1.0)
        else:  # in float32: half precision cannot hold ALiBi's distances; as in the cached step
            scores = (q @ k.transpose(-1, -2)).float()
            if c.attention_soft_cap is not None:
                scores = torch.tanh(scores / c.attention_soft_cap) * c.attention_soft_cap
            weights = (scores + self._mask(window)).softmax(-1).to(v.dtype)
            y = weights @ v
        return y.transpose(1, 2).reshape(-1, c.n_heads * c.head_dim)

    def _mask(self, window: int | None) -> torch.Tensor:
        """Additive float32 mask, [T, T] or with ALiBi [heads, T, T]."""
        if window not in self.masks:
            hidden = self.distance < 0
            if window is not None:
                hidden = hidden | (self.distance >= window)
            mask = torch.zeros(hidden.shape, device=hidden.device)
            if self.slopes is not None:
                mask = mask - self.slopes[:, None, None] * self.distance
            if self.biases is not None:
                biases = self.biases[: len(hidden)].t()  # [heads, T]
                mask = mask + biases[:, None, :] - biases[:, :, None]
            self.masks[window] = mask.masked_fill(hidden, -math.inf)
        return self.masks[window]


def sinusoidal_table(max_positions: int, d_model: int) -> torch.Tensor:
    """Vaswani et al. 2017, section 3.5: sine on even, cosine on odd columns; float32."""
    column = torch.arange(d_model, dtype=torch.float64)
    wave = 10000.0 ** (-(column - column % 2) / d_model)
    angle = torch.arange(max_positions, dtype=torch.float64)[:, None] * wave
    return torch.where(column % 2 == 0, angle.sin(), angle.cos()).float()


def alibi_slopes(n_heads: int) -> torch.Tensor:
    """Press et al. 2021 (arXiv:2108.12409): a geometric series; float32 [n_heads].

    For a number of heads that is no power of two, the series of the next lower power is followed
    by every second slope of the next higher one, as in the authors' code.
    """

    def series(n: int) -> list[float]:
        return [2.0 ** (-8.0 * (i + 1) / n) for i in range(n)]

    power = 2 ** math.floor(math.log2(n_heads))
    return torch.tensor(series(power) + series(2 * power)[::2][: n_heads - power])


def rounded_alibi(c: ModelConfig) -> torch.Tensor:
    """Biases by absolute position as Falcon computes them, float32 [max_positions, heads].

    Softmax sees only their differences, but the rounding depends on the position itself.
    """
    slopes = alibi_slopes(c.n_heads).bfloat16()
    positions = torch.arange(c.max_positions)[:, None]
    return (slopes * positions).float() * c.alibi_scale
