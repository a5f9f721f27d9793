"""One cached step in ONNX Runtime's own operators, for a CPU: dialect `ort`.

Attention is one node a layer, GroupQueryAttention of com.microsoft: it takes the projections as
they come, turns queries and keys, writes the new rows into the cache in place and attends. Rows
stand in the order of their positions there, so a row's index is its position.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from edgeformer.contract import fused_head
from edgeformer.nn.config import ModelConfig
from edgeformer.nn.decoder import Decoder
from edgeformer.nn.layers import Attention

COUNTED = ("learned", "sinusoidal")  # positions that are added to the embedding


def turns_inside(c: ModelConfig) -> bool:
    """Whether the operator turns queries and keys itself: heads of whole 16 numbers, of which
    the first 16, 32, ... turn, or all."""
    ropes = [rope for rope in (c.rope, c.local_rope) if rope is not None]
    widths = [c.head_dim if rope.width is None else rope.width for rope in ropes]
    return c.position == "rope" and not any(width % 16 for width in (c.head_dim, *widths))


def takes_positions(c: ModelConfig) -> bool:
    """Whether the graph has them as an input: what the operator does by itself needs none."""
    return c.position in COUNTED or (c.position == "rope" and not turns_inside(c))


class FusedStep(nn.Module):
    """T new tokens behind those that are cached. To be traced: the operator has no PyTorch form.

    Inputs: token_ids int32 [1, T]; positions int32 [T], only where the embedding needs them;
    rows int32 [R] (which tokens get logits); last int32 [1] and total int32 [1], the index of the
    last row and the number of rows once the step is done; then past.{i}.key and past.{i}.value,
    float32 [1, kv_heads, capacity, head_dim]. Outputs: logits float32 [R, vocab], tokens int64 [R]
    (the most likely ones), and present.{i}.key / .value, which lie where the past ones do.

    `exact`: a step of several tokens is to give the bits of steps of one. The operator computes a
    single row's product with the values in another way than that of several, so it is never given
    a single one: a row of zeros comes behind the tokens, whose key and value go into a row of the
    cache that is spare or will be written by the next step, and whose answer is dropped.
    """

    def __init__(self, decoder: Decoder, capacity: int, exact: bool = False) -> None:
        super().__init__()
        self.decoder, self.config, self.capacity = decoder, decoder.config, capacity
        self.spare = int(exact)  # rows of zeros in a step, and of the cache behind the capacity
        self.counted, self.inside = takes_positions(self.config), turns_inside(self.config)
        alibi = self.config.position == "alibi"
        self.biases = Biases(decoder, capacity + self.spare, exact) if alibi else None
        for kind in ("global", "local"):
            if self.inside and hasattr(decoder, f"{kind}_cos"):
                for part in ("cos", "sin"):  # the operator takes one half: the other is the same
                    table = getattr(decoder, f"{kind}_{part}")
                    half = table[:, table.shape[1] // 2 :]
                    half = torch.cat([half, half[-1:]]) if exact else half  # the spare row's
                    self.register_buffer(f"{kind}_{part}", half.contiguous(), persistent=False)

    @property
    def input_names(self) -> list[str]:
        fixed = ["token_ids", *(["positions"] if self.counted else []), "rows", "last", "total"]
        return fixed + self._row_names("past")

    @property
    def output_names(self) -> list[str]:
        return ["logits", "tokens", *self._row_names("present")]

    def _row_names(self, kind: str) -> list[str]:
        layers = range(self.config.n_layers)
        return [f"{kind}.{i}.{part}" for i in layers for part in ("key", "value")]

    def forward(self, token_ids: torch.Tensor, *rest: torch.Tensor) -> tuple[torch.Tensor, ...]:
        positions, rest = (rest[0], rest[1:]) if self.counted else (None, rest)
        rows, last, total, *past = rest
        decoder = self.decoder
        x = decoder.embed(token_ids, positions)  # [1, T, d_model]
        if self.spare:
            last, total = last + 1, total + 1
        attend = FusedAttention(self, rows, last, total, past)
        if self.biases is not None:
            attend.bias = self.biases(token_ids, total)
        rotary = dict.fromkeys(("none", "global", "local"))
        if self.counted:
            rotary |= decoder.rotary(positions)
        for i, block in enumerate(decoder.blocks):
            chosen = attend.chosen if i == self.config.n_layers - 1 else None
            x = block(x, rotary[self.config.layer_rope(i)], attend, chosen)
        logits = decoder.logits(x)  # of [1, R, d_model]
        return (logits, logits.argmax(-1), *attend.present)

    def example_inputs(self, tokens: int = 3, rows: int = 2) -> tuple[torch.Tensor, ...]:
        """Small inputs to trace with."""
        c = self.config
        count = torch.arange(tokens, dtype=torch.int32)
        shape = (1, c.n_kv_heads, self.capacity + self.spare, fused_head(c.head_dim))
        past = [torch.zeros(1).expand(shape) for _ in range(2 * c.n_layers)]
        sizes = [torch.tensor([size], dtype=torch.int32) for size in (tokens - 1, tokens)]
        positions = [count % c.max_positions] if self.counted else []
        return ((count % c.vocab_size)[None], *positions, count[:rows], *sizes, *past)


class FusedAttention:
    """Gives every layer's projections to one operator. Behind the last one's keys and values only
    the tokens that get logits go on."""

    def __init__(
        self,
        step: FusedStep,
        rows: torch.Tensor,
        last: torch.Tensor,
        total: torch.Tensor,
        past: list[torch.Tensor],
    ) -> None:
        self.step, self.rows, self.last, self.total, self.past = step, rows, last, total, past
        self.present: list[torch.Tensor] = []
        self.bias: torch.Tensor | None = None  # added to scores, [1, heads, T, total]

    def chosen(self, x: torch.Tensor) -> torch.Tensor:
        """[1, T, width] -> [1, R, width]."""
        return x.index_select(1, self.rows)

    def packed(self, attention: Attention, qkv: torch.Tensor) -> torch.Tensor:
        """Projections as they come, [1, T, (heads + 2 * kv_heads) * head_dim]."""
        c = self.step.config
        heads = c.n_heads + 2 * c.n_kv_heads
        if c.head_dim % 8:
            qkv = self._heads(qkv.reshape(-1, heads, c.head_dim), heads)
        else:
            qkv = self._with_spare(qkv, heads)
        return self._node(attention.layer, float(attention.scale), qkv, None, None)

    def __call__(
        self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor
    ) -> torch.Tensor:
        """Queries, keys and values apart, [T, heads, head_dim] each, scaled already."""
        c = self.step.config
        k, v = (self._heads(x, c.n_kv_heads) for x in (k, v))
        return self._node(layer, 1.0, self._heads(q, c.n_heads), k, v)

    def _heads(self, x: torch.Tensor, heads: int) -> torch.Tensor:
        """[T, heads, head_dim] -> [1, T, heads * whole], with zeros up to a multiple of 8; T + 1
        rows in a step that is to be exact."""
        width = self.step.config.head_dim
        whole = fused_head(width)
        x = x if whole == width else F.pad(x, (0, whole - width))
        return self._with_spare(x.reshape(1, -1, heads * whole), heads)

    def _with_spare(self, x: torch.Tensor, heads: int) -> torch.Tensor:
        """[1, T, heads * whole] -> [1, T + 1, ...], the last row of zeros, where it is wanted."""
        if not self.step.spare:
            return x
        return torch.cat([x, torch.zeros(1, 1, heads * fused_head(self.step.config.head_dim))], 1)

    def _node(self, layer: int, scale: float, *qkv: torch.Tensor | None) -> torch.Tensor:
        c = self.step.config
        kind = c.layer_rope(layer)
        tables = [getattr(self.step, f"{kind}_{part}", None) for part in ("cos", "sin")]
        window = c.layer_window(layer)
        attributes = {
            "num_heads_i": c.n_heads,
            "kv_num_heads_i": c.n_kv_heads,
            "scale_f": scale,
            "local_window_size_i": -1 if window is None else window,
            "softcap_f": c.attention_soft_cap or 0.0,
            "do_rotary_i": int(tables[0] is not None),
        }
        past = self.past[2 * layer : 2 * layer + 2]
        inputs = (*qkv, *past, self.last, self.total, *tables)
        if self.bias is not None:
            inputs = (*inputs, None, self.bias)  # positions, which the operator counts itself
        # a number, not a product of sizes: the exporter traces that as well, and fails on n * 1
        whole = fused_head(c.head_dim)
        y, *new = GroupQuery.apply(*inputs, c.n_heads * whole, attributes)
        self.present += new
        if whole != c.head_dim:
            y = y.reshape(1, -1, c.n_heads, whole)[..., : c.head_dim]
            y = y.reshape(1, -1, c.n_heads * c.head_dim)
        if layer == c.n_layers - 1:
            return self.chosen(y)
        return y[:, :-1] if self.step.spare else y


class Biases(nn.Module):
    """What ALiBi adds to scores, [1, heads, T, total]: a piece of one table, the same for every
    query, since a softmax does not see what all keys of a query have in common. `exact`: for T + 1
    tokens, and the same bias for a key whatever comes behind it."""

    def __init__(self, decoder: Decoder, capacity: int, exact: bool) -> None:
        super().__init__()
        self.exact = exact
        self.first = exact or decoder.config.alibi_bfloat16
        if decoder.config.alibi_bfloat16:
            # by absolute position: another distance is another rounding
            rows = decoder.biases[:capacity]
            rows = torch.cat([rows, rows[-1:]]) if len(rows) < capacity else rows
            table = rows.t()  # [heads, capacity]
        elif exact:
            table = decoder.slopes[:, None] * torch.arange(capacity, dtype=torch.float32)
        else:  # by the distance from the newest token, which stands in the last column
            away = torch.arange(capacity - 1, -1, -1, dtype=torch.float32)
            table = -decoder.slopes[:, None] * away
        self.register_buffer("table", table[None, :, None].contiguous(), persistent=False)

    def forward(self, token_ids: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
        each = (token_ids * 0).to(torch.float32)[:, None, :, None]  # [1, 1, T, 1]
        if self.exact:
            each = torch.cat([each, torch.zeros(1, 1, 1, 1)], 2)
        return Columns.apply(self.table, total, self.first) + each


class Columns(torch.autograd.Function):
    """The first or the last columns of a table [..., capacity]; how many is a tensor [1]."""

    @staticmethod
    def forward(ctx: Any, table: torch.Tensor, count: torch.Tensor, first: bool) -> torch.Tensor:
        count = int(count)
        return table[..., :count] if first else table[..., table.shape[-1] - count :]

    @staticmethod
    def symbolic(g: Any, table: Any, count: Any, first: bool) -> Any:
        *sizes, width = table.type().sizes()

        def integer(value: int) -> Any:
            return g.op("Constant", value_t=torch.tensor([value], dtype=torch.int32))

        start = integer(0) if first else g.op("Sub", integer(width), count)
        stop = count if first else integer(width)
        made = g.op("Slice", table, start, stop, integer(len(sizes)))
        return made.setType(table.type().with_sizes([*sizes, None]))


class GroupQuery(torch.autograd.Function):
    """com.microsoft.GroupQueryAttention as a node; computed here it gives zeros."""

    @staticmethod
    def forward(ctx: Any, q: torch.Tensor, k: Any, v: Any, *rest: Any) -> tuple[torch.Tensor, ...]:
        past_k, past_v, *_, width, _ = rest
        return q.new_zeros(*q.shape[:-1], width), past_k.clone(), past_v.clone()

    @staticmethod
    def symbolic(g: Any, q: Any, k: Any, v: Any, *rest: Any) -> Any:
        *tensors, width, attributes = rest
        absent = g.op("prim::Constant")
        absent.setType(torch._C.OptionalType.ofTensor())
        inputs = [absent if value is None else value for value in (q, k, v, *tensors)]
        made = g.op("com.microsoft::GroupQueryAttention", *inputs, **attributes, outputs=3)
        made[0].setType(q.type().with_sizes([1, None, width]))
        for present in made[1:]:
            present.setType(tensors[0].type())
        return made
