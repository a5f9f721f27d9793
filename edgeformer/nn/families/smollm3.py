"""SmolLM3: llama in which every fourth layer has no RoPE."""

from __future__ import annotations

from edgeformer.nn.config import ModelConfig
from edgeformer.nn.families import llama_like
from edgeformer.nn.families.family import Family
from edgeformer.nn.families.keys import Keys
from edgeformer.nn.families.rope_keys import rope_from


def config_from(keys: Keys) -> ModelConfig:
    sizes = llama_like.sizes(keys, tied=True)
    keys.irrelevant("max_window_layers")
    n_layers = sizes["n_layers"]
    step = keys.integer("no_rope_layer_interval", 4)
    turns = keys.items("no_rope_layers", int, n_layers)  # despite its name, 1 is a layer with RoPE
    if turns is None:
        turns = [int((i + 1) % step != 0) for i in range(n_layers)]
    window = keys.integer("sliding_window", None)
    window = window if keys.flag("use_sliding_window", False) else None
    sliding = [window is not None and not turn for turn in turns]
    bias = keys.flag("attention_bias", False)
    return ModelConfig(
        **sizes,
        rope=rope_from(keys, sizes["head_dim"], sizes["max_positions"], theta=2e6),
        rope_layers=tuple("global" if turn else "none" for turn in turns),
        window=llama_like.layer_windows(keys, n_layers, window, sliding),
        qkv_bias=bias,
        attention_out_bias=bias,
        ff_bias=keys.flag("mlp_bias", False),
    )


FAMILY = Family("smollm3", ("SmolLM3ForCausalLM", "SmolLM3Model"), config_from, llama_like.tensors)
