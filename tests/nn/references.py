"""Independent references: tiny random models of `transformers` and their weights in a `Decoder`.

A family is a table of module names. Every number of the reference must land in exactly one
tensor of ours, so no weight can be dropped on the way.
"""

import dataclasses
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from edgeformer.nn.config import ModelConfig
from edgeformer.nn.decoder import Decoder

TOLERANCE = 1e-4  # times max(1, |logit|)
LENGTH = 40  # tokens: more than every window, and more than original_max_positions, in the tests


def unchanged(name: str, tensor: torch.Tensor) -> torch.Tensor:
    return tensor


class Reference(NamedTuple):
    """A model of transformers, our config for it, and how the names correspond.

    Names are of modules, `{i}` is the layer; a list is stacked along the rows. `breaks` are
    changes of our config that must show in the logits: they prove that the test can fail.
    """

    model: torch.nn.Module
    config: ModelConfig
    names: dict[str, str | list[str]]
    change: Callable[[str, torch.Tensor], torch.Tensor] = unchanged
    breaks: tuple[dict[str, Any], ...] = ()


# The fields that every reference model here has in common, in both languages.
OURS = {
    "vocab_size": 80,
    "d_model": 32,
    "n_layers": 3,
    "n_heads": 4,
    "d_ff": 48,
    "max_positions": 64,
}
THEIRS = {
    "vocab_size": 80,
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}

LLAMA = {
    "embedding": "model.embed_tokens",
    "blocks.{i}.attention.qkv": [
        f"model.layers.{{i}}.self_attn.{part}_proj" for part in ("q", "k", "v")
    ],
    "blocks.{i}.attention.out": "model.layers.{i}.self_attn.o_proj",
    "blocks.{i}.ff.up": ["model.layers.{i}.mlp.gate_proj", "model.layers.{i}.mlp.up_proj"],
    "blocks.{i}.ff.down": "model.layers.{i}.mlp.down_proj",
    "blocks.{i}.attention_norm": "model.layers.{i}.input_layernorm",
    "blocks.{i}.ff_norm": "model.layers.{i}.post_attention_layernorm",
    "final_norm": "model.norm",
    "head": "lm_head",
}
QK_NORM = {
    "blocks.{i}.attention.q_norm": "model.layers.{i}.self_attn.q_norm",
    "blocks.{i}.attention.k_norm": "model.layers.{i}.self_attn.k_norm",
}
SANDWICH = {
    "blocks.{i}.attention_post_norm": "model.layers.{i}.post_attention_layernorm",
    "blocks.{i}.ff_norm": "model.layers.{i}.pre_feedforward_layernorm",
    "blocks.{i}.ff_post_norm": "model.layers.{i}.post_feedforward_layernorm",
}


def make(model_class: type, config: Any, seed: int = 0) -> torch.nn.Module:
    """A model of transformers whose every number is random, norms and biases too."""
    config._attn_implementation = "eager"
    model = model_class(config).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in model.parameters():
            noise = torch.randn(p.shape, generator=generator)
            p.copy_(noise * 0.3 if p.dim() > 1 else p + noise * 0.2)
    return model


def decoder_of(reference: Reference, config: ModelConfig | None = None) -> Decoder:
    """Our decoder with the weights of the reference; `config` replaces the right one."""
    decoder = Decoder(config or reference.config).eval()
    theirs = dict(reference.model.named_parameters())
    used: set[str] = set()
    state = decoder.state_dict()
    for ours, tensor in state.items():
        sources = _sources(ours, reference.names)
        assert not used & set(sources), f"{sources} used twice"
        used.update(sources)
        parts = [reference.change(name, theirs[name].detach()) for name in sources]
        value = torch.cat(parts) if len(parts) > 1 else parts[0]
        assert value.shape == tensor.shape, (ours, sources, value.shape, tensor.shape)
        tensor.copy_(value)
    assert used == set(theirs), f"not consumed: {sorted(set(theirs) - used)}"
    return decoder


def _sources(ours: str, names: dict[str, str | list[str]]) -> list[str]:
    if ours in names:
        return [names[ours]]
    module, _, kind = ours.rpartition(".")  # kind: weight or bias
    found = re.match(r"blocks\.(\d+)\.", module)
    layer = found.group(1) if found else ""
    entry = names[re.sub(r"^blocks\.\d+\.", "blocks.{i}.", module)]
    modules = [entry] if isinstance(entry, str) else entry
    return [f"{m.format(i=layer)}.{kind}" for m in modules]


def token_ids(length: int = LENGTH, vocab_size: int = 80, batch: int = 2) -> torch.Tensor:
    # from 3: a reference may treat its padding token as absent
    generator = torch.Generator().manual_seed(11)
    return torch.randint(3, vocab_size, (batch, length), generator=generator)


def error(ours: torch.Tensor, theirs: torch.Tensor) -> float:
    """The largest difference, relative to max(1, |logit|)."""
    assert ours.shape == theirs.shape
    assert torch.isfinite(theirs).all()
    return ((ours - theirs).abs() / theirs.abs().clamp(min=1)).max().item()


@torch.no_grad()
def check(reference: Reference, length: int = LENGTH) -> None:
    """The right config gives the logits of the reference, each of the broken ones does not."""
    ids = token_ids(length)
    theirs = reference.model(input_ids=ids, use_cache=False).logits.float()
    assert error(decoder_of(reference)(ids), theirs) < TOLERANCE
    for change in reference.breaks:
        broken = dataclasses.replace(reference.config, **change)
        found = error(decoder_of(reference, broken)(ids), theirs)
        assert found > 2 * TOLERANCE, f"{change} goes unnoticed"


# Layouts of a fused query/key/value matrix that differ from ours (all q, all k, all v).


def transposed(name: str, tensor: torch.Tensor) -> torch.Tensor:
    """GPT-2 keeps its linear weights as [in, out]."""
    return tensor.t() if re.search(r"\.c_(attn|proj|fc)\.weight$", name) else tensor


def by_head(name: str, tensor: torch.Tensor, heads: int = 4) -> torch.Tensor:
    """GPT-NeoX and Bloom: q, k, v of the first head, then of the second."""
    if "query_key_value" not in name:
        return tensor
    rows = tensor.reshape(heads, 3, -1, *tensor.shape[1:])
    return rows.transpose(0, 1).reshape(tensor.shape)


def interleaved(name: str, tensor: torch.Tensor, head_dim: int = 8) -> torch.Tensor:
    """Cohere turns neighbours (2i, 2i + 1); ours are (i, i + width/2)."""
    if not re.search(r"\.[qk]_proj\.weight$", name):
        return tensor
    rows = tensor.reshape(-1, head_dim // 2, 2, tensor.shape[-1])
    return rows.transpose(1, 2).reshape(tensor.shape)
