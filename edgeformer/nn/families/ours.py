"""Our own checkpoints: the config is a `ModelConfig`, the tensors have our names."""

from __future__ import annotations

from typing import Any

import torch

from edgeformer.nn.config import ModelConfig
from edgeformer.nn.decoder import Decoder
from edgeformer.nn.families.family import Family
from edgeformer.nn.families.keys import Keys
from edgeformer.nn.families.recipe import Recipe, rows

NAME = "edgeformer"  # our config.json has no model_type; its source adds this one


def config_from(keys: Keys) -> ModelConfig:
    keys.seen.update(keys.values)
    values = {**keys.values, **dict.fromkeys(keys.null)}
    values.pop("model_type")
    return ModelConfig.from_json(values)


def tensors(config: ModelConfig, keys: dict[str, Any]) -> dict[str, Recipe]:
    with torch.device("meta"):
        return {name: rows(name) for name in Decoder(config).state_dict()}


FAMILY = Family(
    NAME, (), config_from, tensors, prefix="", embedding="embedding.weight", head="head.weight"
)
