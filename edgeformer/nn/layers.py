"""The parts of a decoder block. Each works on [tokens, d_model] and knows nothing of the cache.

Tokens of a batch stand in one axis: every reshape then has constant sizes and one -1, so that a
traced graph needs no Shape nodes.

A part computes in the type of its weights and casts what comes to it, so that some parts of a
half-precision decoder can be float32 (`pins.py`); what it gives is cast by the next one.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

from edgeformer.nn.config import GATED, ModelConfig
from edgeformer.nn.rope import rotate

# attend(layer, query [T, heads, head_dim], key and value [T, kv_heads, head_dim])
# -> [T, heads * head_dim]; the query is already scaled.
Attend = Callable[[int, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
# cos and sin rows for the tokens, each [T, 1, width]; None: this layer does not turn.
Rotary = tuple[torch.Tensor, torch.Tensor] | None
Rows = Callable[[torch.Tensor], torch.Tensor]  # some of the tokens of a tensor


def in_type_of(x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """x cast to the type of another; bfloat16 is autocast's, which casts by rules of its own."""
    same = x.dtype == other.dtype or torch.bfloat16 in (x.dtype, other.dtype)
    return x if same else x.to(other.dtype)


class Linear(nn.Linear):
    """A product in the type of its weight."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(in_type_of(x, self.weight))


class Norm(nn.Module):
    """RMSNorm or LayerNorm over the last axis, its statistics in float32, in two passes."""

    def __init__(self, c: ModelConfig, width: int | tuple[int, int]) -> None:
        super().__init__()
        self.eps, self.plus_one, self.centered = c.norm_eps, c.norm_plus_one, c.norm == "layernorm"
        start = torch.zeros(width) if c.norm_plus_one else torch.ones(width)
        self.weight = nn.Parameter(start)
        self.bias = nn.Parameter(torch.zeros(width)) if self.centered and c.norm_bias else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x if x.dtype == torch.float32 else x.float()
        if self.centered:
            y = y - y.mean(-1, keepdim=True)
        y = y / torch.sqrt(y.pow(2).mean(-1, keepdim=True) + self.eps)
        if self.plus_one:
            return in_type_of(y * (1.0 + self.weight.float()), self.weight)  # as Gemma does
        y = in_type_of(y, self.weight) * self.weight
        return y if self.bias is None else y + self.bias


class FeedForward(nn.Module):
    """Two or three projections around an activation; gate and up are one product."""

    def __init__(self, c: ModelConfig) -> None:
        super().__init__()
        self.kind, self.d_ff = c.feed_forward, c.d_ff
        width = 2 * c.d_ff if c.feed_forward in GATED else c.d_ff
        self.up = Linear(c.d_model, width, bias=c.ff_bias)  # gated: gate rows, then up rows
        self.down = Linear(c.d_ff, c.d_model, bias=c.ff_bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = in_type_of(self.up(x), self.down.weight)
        if self.kind not in GATED:
            return self.down(_activation(self.kind, x))
        gate, up = x.split([self.d_ff, self.d_ff], -1)
        return self.down(_activation(self.kind, gate) * up)


def _activation(kind: str, x: torch.Tensor) -> torch.Tensor:
    if kind == "swiglu":
        return x * torch.sigmoid(x)
    if kind == "relu":
        return torch.relu(x)
    return F.gelu(x, approximate="tanh" if kind in ("geglu_tanh", "gelu_tanh") else "none")


class Attention(nn.Module):
    """Projections, query/key norm and rotation; `attend` does the rest."""

    def __init__(self, c: ModelConfig, layer: int) -> None:
        super().__init__()
        self.layer, self.scale, self.qk_norm = layer, c.scale, c.qk_norm
        self.heads, self.kv_heads, self.head_dim = c.n_heads, c.n_kv_heads, c.head_dim
        width = self.heads * self.head_dim
        self.qkv = Linear(c.d_model, width + 2 * c.kv_width, bias=c.qkv_bias)
        self.out = Linear(width, c.d_model, bias=c.attention_out_bias)
        if c.qk_norm == "head":
            self.q_norm, self.k_norm = Norm(c, c.head_dim), Norm(c, c.head_dim)
        elif c.qk_norm == "heads":
            self.q_norm = Norm(c, (self.heads, c.head_dim))
            self.k_norm = Norm(c, (self.kv_heads, c.head_dim))
        elif c.qk_norm == "full":
            self.q_norm, self.k_norm = Norm(c, width), Norm(c, c.kv_width)

    def forward(self, x: torch.Tensor, rotary: Rotary, attend: Attend) -> torch.Tensor:
        heads, kv_heads, width = self.heads, self.kv_heads, self.head_dim
        x = self.qkv(x)
        packed = getattr(attend, "packed", None)
        if packed is not None and rotary is None and self.qk_norm == "none":
            return self.out(packed(self, x))
        if x.dtype == torch.float32:  # scores and values are half if either projection is
            x = in_type_of(x, self.out.weight)
        qk, v = x.split([(heads + kv_heads) * width, kv_heads * width], -1)
        if self.qk_norm == "full":
            q, k = qk.split([heads * width, kv_heads * width], -1)
            qk = torch.cat([in_type_of(self.q_norm(q), x), in_type_of(self.k_norm(k), x)], -1)
        qk = qk.reshape(-1, heads + kv_heads, width)  # [T, heads + kv_heads, head_dim]
        if self.qk_norm in ("head", "heads"):
            q, k = qk.split([heads, kv_heads], -2)
            qk = torch.cat([in_type_of(self.q_norm(q), x), in_type_of(self.k_norm(k), x)], -2)
        if rotary is not None:  # queries and keys turn together: half the nodes
            qk = rotate(qk, *(in_type_of(table, qk) for table in rotary))
        q, k = qk.split([heads, kv_heads], -2)
        v = v.reshape(-1, kv_heads, width)
        return self.out(attend(self.layer, q * self.scale, k, v))


class Block(nn.Module):
    """Attention and feed-forward with the norms and residuals that the config asks for."""

    def __init__(self, c: ModelConfig, layer: int) -> None:
        super().__init__()
        self.placement, self.parallel = c.norm_placement, c.parallel
        self.residual = c.residual_multiplier
        self.attention, self.ff = Attention(c, layer), FeedForward(c)
        self.attention_norm = Norm(c, c.d_model)
        if c.parallel != "one_norm":
            self.ff_norm = Norm(c, c.d_model)
        if c.norm_placement == "sandwich":
            self.attention_post_norm = Norm(c, c.d_model)
            self.ff_post_norm = Norm(c, c.d_model)
        self.dropout = nn.Dropout(c.dropout)

    def forward(
        self, x: torch.Tensor, rotary: Rotary, attend: Attend, rows: Rows | None = None
    ) -> torch.Tensor:
        """`rows`: picks the tokens that go on, where `attend` gives no others (a last block)."""
        rows = rows or (lambda x: x)
        if self.parallel != "none":
            y = self.attention_norm(x)
            a, x = self.attention(y, rotary, attend), rows(x)
            f = self.ff(rows(y) if self.parallel == "one_norm" else self.ff_norm(x))
            return self._add(x, in_type_of(a, x) + in_type_of(f, x))
        before = self.placement in ("pre", "sandwich")
        y = self.attention(self.attention_norm(x) if before else x, rotary, attend)
        x = rows(x)
        if self.placement == "pre":
            x = self._add(x, y)
            return self._add(x, self.ff(self.ff_norm(x)))
        if self.placement == "post":
            y = in_type_of(self.attention_norm(self._add(x, y)), x)
            return in_type_of(self.ff_norm(self._add(y, self.ff(y))), x)
        if self.placement == "output":
            x = self._add(x, self.attention_norm(y))
            return self._add(x, self.ff_norm(self.ff(x)))
        x = self._add(x, self.attention_post_norm(y))
        return self._add(x, self.ff_post_norm(self.ff(self.ff_norm(x))))

    def _add(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """In the type of x, the residual stream's: each block keeps it."""
        y = in_type_of(self.dropout(y) if self.training else y, x)
        return x + (y if self.residual == 1.0 else y * self.residual)
