"""Mistral: llama with one sliding window for all layers."""

from __future__ import annotations

from edgeformer.nn.config import ModelConfig
from edgeformer.nn.families import llama_like
from edgeformer.nn.families.family import Family
from edgeformer.nn.families.keys import Keys
from edgeformer.nn.families.rope_keys import rope_from


def config_from(keys: Keys) -> ModelConfig:
    """Where the key is absent the window is 4096; where it is null there is none."""
    sizes = llama_like.sizes(keys)
    return ModelConfig(
        **sizes,
        rope=rope_from(keys, sizes["head_dim"], sizes["max_positions"]),
        window=keys.integer("sliding_window", keys.unless_null("sliding_window", 4096)),
    )


FAMILY = Family("mistral", ("MistralForCausalLM", "MistralModel"), config_from, llama_like.tensors)
