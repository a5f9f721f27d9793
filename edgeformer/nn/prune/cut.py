"""Cut parts of a decoder block: new ones of the rows and columns that stay. The old are kept."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from edgeformer.nn.config import GATED, ModelConfig
from edgeformer.nn.layers import Attention, FeedForward
from edgeformer.nn.prune.eliminate import columns_of

State = dict[str, torch.Tensor]


def cut_ff(
    ff: FeedForward,
    c: ModelConfig,
    kept: Sequence[int],
    down: torch.Tensor,
    bias: torch.Tensor | None,
) -> FeedForward:
    """Only the kept neurons; `down` [d_model, kept] and its bias replace the old ones."""
    rows = torch.tensor(kept)
    if c.feed_forward in GATED:  # gate rows, then up rows
        rows = torch.cat([rows, rows + ff.d_ff])
    state = {"up.weight": ff.up.weight[rows], "down.weight": down}
    if bias is not None:
        state |= {"up.bias": ff.up.bias[rows], "down.bias": bias}
    with torch.device("meta"):
        return _filled(FeedForward(c), state)


def cut_attention(
    attention: Attention,
    c: ModelConfig,
    layer: int,
    kept: Sequence[int],
    out: torch.Tensor,
    bias: torch.Tensor | None,
) -> Attention:
    """Only the kept KV groups; `out` [d_model, kept heads * head_dim] replaces the old one."""
    head_dim, kv_heads = attention.head_dim, attention.kv_heads
    groups, wide = torch.tensor(kept), attention.heads // kv_heads
    queries, keys = columns_of(groups, wide * head_dim), columns_of(groups, head_dim)
    first_key = attention.heads * head_dim
    rows = torch.cat([queries, first_key + keys, first_key + kv_heads * head_dim + keys])
    state = {"qkv.weight": attention.qkv.weight[rows], "out.weight": out}
    if attention.qkv.bias is not None:
        state["qkv.bias"] = attention.qkv.bias[rows]
    if bias is not None:
        state["out.bias"] = bias
    chosen: dict[str, tuple] = {
        "none": (),
        "head": (slice(None), slice(None)),  # all heads share one norm
        "heads": (columns_of(groups, wide), groups),
        "full": (queries, keys),
    }
    for name, index in zip(("q_norm", "k_norm"), chosen[c.qk_norm]):
        for part, tensor in getattr(attention, name).state_dict().items():
            state[f"{name}.{part}"] = tensor[index]
    with torch.device("meta"):
        return _filled(Attention(c, layer), state)


def _filled(module: nn.Module, state: State) -> nn.Module:
    """The module, made on meta, with its own copies."""
    module.load_state_dict({k: v.detach().clone() for k, v in state.items()}, assign=True)
    return module.eval()


def copied(module: nn.Module, made: nn.Module) -> nn.Module:
    """`made`, a module of the same shapes made on meta, with copies of the tensors of `module`."""
    return _filled(made, module.state_dict())
