"""One cached step as a module: the contract that prefill.onnx and decode.onnx are traced from.

Rows carry their position, and attention never assumes an order of rows. A cached row is visible
when 0 <= its position < the new token's position and inside the window; a new token is visible
when 0 <= its position <= the other's. Position -1 marks an empty row or a padding token.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from edgeformer.nn.decoder import Decoder
from edgeformer.nn.layers import in_type_of

HIDDEN = -1e4  # added to a masked score: finite in FP16, and far below any real score


class CachedStep(nn.Module):
    """T new tokens against P cached rows.

    Inputs: token_ids int32 [T], positions int32 [T], past_positions int32 [P], rows int32 [R]
    (which tokens get logits; prefill only), then past.{i}.key and past.{i}.value
    [P, kv_heads * head_dim] for each layer. Outputs: logits float32 [R, vocab], then
    new.{i}.key and new.{i}.value [T, kv_heads * head_dim].

    `one` fixes T = R = 1 (decode.onnx): masks that are then always zero are left out.
    `host`: in place of token_ids come their rows of the embedding's table, embeddings [T, d_model].
    Cache and embeddings have the decoder's own type, float32 or float16; activations too, but for
    what is pinned to float32.
    """

    def __init__(self, decoder: Decoder, one: bool = False, host: bool = False) -> None:
        super().__init__()
        self.decoder, self.one, self.host = decoder, one, host
        c = self.config = decoder.config
        self.groups = c.n_heads // c.n_kv_heads
        # 0-d buffers: Max and Min take tensors, and opset 13 has no INT32 Clip in old runtimes
        self.register_buffer("zero", torch.tensor(0, dtype=torch.int32), persistent=False)
        self.register_buffer("unit", torch.tensor(1, dtype=torch.int32), persistent=False)
        spread = torch.zeros(1, self.groups, dtype=torch.int32)
        self.register_buffer("spread", spread, persistent=False)
        for window in {c.layer_window(i) for i in range(c.n_layers)} - {None}:
            last = torch.tensor(window - 1, dtype=torch.int32)
            self.register_buffer(f"last_{window}", last, persistent=False)

    @property
    def input_names(self) -> list[str]:
        first = "embeddings" if self.host else "token_ids"
        fixed = [first, "positions", "past_positions"] + ([] if self.one else ["rows"])
        return fixed + self._row_names("past")

    @property
    def output_names(self) -> list[str]:
        return ["logits", *self._row_names("new")]

    def _row_names(self, kind: str) -> list[str]:
        layers = range(self.config.n_layers)
        return [f"{kind}.{i}.{part}" for i in layers for part in ("key", "value")]

    def forward(
        self,
        tokens: torch.Tensor,
        positions: torch.Tensor,
        past_positions: torch.Tensor,
        *rest: torch.Tensor,
    ) -> tuple[torch.Tensor, ...]:
        rows, past = (None, rest) if self.one else (rest[0], rest[1:])
        decoder, c = self.decoder, self.config
        # padding has no row in a position table, and what a negative index gathers is not defined
        seats = positions if self.one else torch.maximum(positions, self.zero)
        embed = decoder.embed_rows if self.host else decoder.embed
        x = embed(tokens, seats)  # [T, d_model]
        rotary = decoder.rotary(seats)
        attend = CachedAttention(self, positions, past_positions, past)
        for i, block in enumerate(decoder.blocks):
            x = block(x, rotary[c.layer_rope(i)], attend)
        if rows is not None:
            x = F.embedding(rows, x)  # [R, d_model]
        return (decoder.logits(x), *attend.new_rows)

    def example_inputs(self, tokens: int = 3, past: int = 5, rows: int = 2) -> tuple:
        """Small inputs to trace with; each axis has its own length so that none is confused."""
        c = self.config
        tokens, rows = (1, 1) if self.one else (tokens, rows)

        def count(start: int, n: int) -> torch.Tensor:
            return torch.arange(start, start + n, dtype=torch.int32)

        dtype = self.decoder.dtype
        cache = [torch.randn(past, c.kv_width).to(dtype) for _ in range(2 * c.n_layers)]
        ids = count(0, tokens) % c.vocab_size
        first = torch.randn(tokens, c.d_model).to(dtype) if self.host else ids
        fixed = [first, count(0, tokens) % c.max_positions, count(0, past)]
        return (*fixed, *([] if self.one else [count(0, rows)]), *cache)


class CachedAttention:
    """Scores against old and new rows apart, one softmax over both, two products added."""

    def __init__(
        self,
        step: CachedStep,
        positions: torch.Tensor,
        past_positions: torch.Tensor,
        past: tuple[torch.Tensor, ...],
    ) -> None:
        self.step, self.config, self.one = step, step.config, step.one
        self.past, self.past_positions, self.positions = past, past_positions, positions
        self.groups = step.groups
        # one query row for each (token, query head of a group): the mask needs no reshape later
        alone = self.one or self.groups == 1
        self.queries = (  # [T * groups]
            positions if alone else (positions[:, None] + step.spread).reshape(-1)
        )
        self.masks: dict[int | None, tuple[torch.Tensor, torch.Tensor | None]] = {}
        self.new_rows: list[torch.Tensor] = []

    def __call__(
        self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor
    ) -> torch.Tensor:
        c, past_k, past_v = self.config, self.past[2 * layer], self.past[2 * layer + 1]
        self.new_rows += [in_type_of(t.reshape(-1, c.kv_width), past_k) for t in (k, v)]
        past_k, past_v = in_type_of(past_k, k), in_type_of(past_v, v)
        q = self._by_kv_head(q)  # [kv_heads, T * groups, head_dim]
        old_k = past_k.reshape(-1, c.n_kv_heads, c.head_dim).permute(1, 2, 0)
        old_v = past_v.reshape(-1, c.n_kv_heads, c.head_dim).permute(1, 0, 2)
        new_k, new_v = k.permute(1, 2, 0), v.permute(1, 0, 2)  # [kv_heads, ., .]
        old_mask, new_mask = self._masks(c.layer_window(layer))
        old = self._cap(q @ old_k) + old_mask  # [kv_heads, T * groups, P]
        new = self._cap(q @ new_k)  # [kv_heads, T * groups, T]
        new = new if new_mask is None else new + new_mask
        weights = torch.cat([old, new], -1).softmax(-1)
        weights = weights if weights.dtype == v.dtype else weights.to(v.dtype)
        if self.one:
            y = weights[..., :-1] @ old_v + weights[..., -1:] * new_v
        else:
            p = self.past_positions.shape[0]
            y = weights[..., :p] @ old_v + weights[..., p:] @ new_v
        return self._by_token(y)

    def _by_kv_head(self, q: torch.Tensor) -> torch.Tensor:
        """[T, heads, head_dim] -> [kv_heads, T * groups, head_dim]."""
        kv_heads, width = self.config.n_kv_heads, self.config.head_dim
        if self.one:
            return q.reshape(kv_heads, self.groups, width)
        if self.groups == 1:
            return q.permute(1, 0, 2)
        q = q.reshape(-1, kv_heads, self.groups, width).permute(1, 0, 2, 3)
        return q.reshape(kv_heads, -1, width)

    def _by_token(self, y: torch.Tensor) -> torch.Tensor:
        """[kv_heads, T * groups, head_dim] -> [T, heads * head_dim]."""
        kv_heads, width = self.config.n_kv_heads, self.config.head_dim
        if self.one:
            return y.reshape(1, -1)
        if self.groups == 1:
            return y.permute(1, 0, 2).reshape(-1, kv_heads * width)
        y = y.reshape(kv_heads, -1, self.groups, width).permute(1, 0, 2, 3)
        return y.reshape(-1, kv_heads * self.groups * width)

    def _cap(self, scores: torch.Tensor) -> torch.Tensor:
        scores = scores if scores.dtype == torch.float32 else scores.float()
        cap = self.config.attention_soft_cap
        return scores if cap is None else torch.tanh(scores / cap) * cap

    def _masks(self, window: int | None) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Additive float32 masks for old and new rows; None: the new row is always visible."""
        if window not in self.masks:
            old = self._mask(self.past_positions, self.step.unit, window)
            new = None if self.one else self._mask(self.positions, self.step.zero, window)
            self.masks[window] = old, new
        return self.masks[window]

    def _mask(self, keys: torch.Tensor, nearest: torch.Tensor, window: int | None) -> torch.Tensor:
        """Visible: key >= 0 and nearest <= query - key < window. INT32 until it is 0 or 1."""
        zero, unit = self.step.zero, self.step.unit
        distance = self.queries[:, None] - keys[None, :]  # [T * groups, keys]
        beyond = torch.maximum(nearest - distance, (zero - keys)[None, :])
        if window is not None:
            beyond = torch.maximum(beyond, distance - getattr(self.step, f"last_{window}"))
        hidden = torch.minimum(torch.maximum(beyond, zero), unit)
        mask = hidden.to(torch.float32) * HIDDEN
        if self.config.position != "alibi":
            return mask
        if self.config.alibi_bfloat16:
            table = self.step.decoder.biases
            of_keys = F.embedding(torch.maximum(keys, zero), table).t()  # [heads, keys]
            of_queries = F.embedding(torch.maximum(self.queries, zero), table).t()  # [heads, T]
            return mask + (of_keys[:, None, :] - of_queries[:, :, None])
        away = torch.maximum(distance, zero).to(torch.float32)
        return mask - self._slopes() * away  # [kv_heads, T * groups, keys]

    def _slopes(self) -> torch.Tensor:
        """ALiBi slopes in the order of the query rows, [kv_heads, T * groups, 1]."""
        kv_heads = self.config.n_kv_heads
        slopes = self.step.decoder.slopes.reshape(kv_heads, self.groups)
        if self.one or self.groups == 1:
            return slopes[:, :, None]
        tokens = (self.positions * 0).to(torch.float32)  # [T] zeros without a Shape node
        return (tokens[None, :, None] + slopes[:, None, :]).reshape(kv_heads, -1, 1)
