"""What a checkpoint family is: a mapping of config keys and tensor names onto a `ModelConfig`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from edgeformer.nn.config import ModelConfig
from edgeformer.nn.families.keys import Keys
from edgeformer.nn.families.recipe import Recipe

# Activations by the names that configs use, for a plain and for a gated feed-forward.
PLAIN_ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_python_tanh": "gelu_tanh",
    "relu": "relu",
}
GATED_ACTIVATIONS = {
    "silu": "swiglu",
    "swish": "swiglu",
    "gelu": "geglu",
    "gelu_new": "geglu_tanh",
    "gelu_fast": "geglu_tanh",
    "gelu_pytorch_tanh": "geglu_tanh",
}

# Tensors that some versions of transformers saved although they are computed from the config.
DERIVED = (r"(.*\.)?rotary_emb\.(inv_freq|(cos|sin)_cached)",)


class Family(NamedTuple):
    """One `model_type`.

    `tensors` gives a recipe for each tensor that a decoder of this family can have, and may give
    more than this config has (a bias, say). Its names of theirs lack `prefix`, which a checkpoint
    of the bare body does not have either; names of the head stand as they are.
    """

    name: str
    architectures: tuple[str, ...]
    config_from: Callable[[Keys], ModelConfig]
    tensors: Callable[[ModelConfig, dict[str, Any]], dict[str, Recipe]]
    prefix: str = "model."
    embedding: str = "embed_tokens.weight"
    head: str = "lm_head.weight"
    irrelevant: tuple[str, ...] = ()  # regular expressions over whole names, beside DERIVED
