"""Host half: the checkpoint families that a `Decoder` can be made from. One file for each."""

from __future__ import annotations

from typing import Any

from edgeformer.nn.config import ConfigError, ModelConfig
from edgeformer.nn.families import (
    bloom,
    falcon,
    gemma,
    gemma2,
    gemma3,
    gpt2,
    gpt_neo,
    gpt_neox,
    granite,
    llama,
    mistral,
    mpt,
    olmo2,
    opt,
    ours,
    phi,
    phi3,
    qwen2,
    qwen3,
    smollm3,
    stablelm,
    starcoder2,
)
from edgeformer.nn.families.family import Family
from edgeformer.nn.families.keys import Keys, UnsupportedModel, check_common, shown

__all__ = ["FAMILIES", "Family", "UnsupportedModel", "config_of", "find_family"]

_MODULES = (
    bloom,
    falcon,
    gemma,
    gemma2,
    gemma3,
    gpt2,
    gpt_neo,
    gpt_neox,
    granite,
    llama,
    mistral,
    mpt,
) + (olmo2, opt, ours, phi, phi3, qwen2, qwen3, smollm3, stablelm, starcoder2)
FAMILIES: dict[str, Family] = {module.FAMILY.name: module.FAMILY for module in _MODULES}


def find_family(name: Any) -> Family:
    """The family of a config's `model_type`."""
    if isinstance(name, str) and name in FAMILIES:
        return FAMILIES[name]
    known = ", ".join(sorted(set(FAMILIES) - {ours.NAME}))
    if name is None:
        raise UnsupportedModel(f"config.json names no model_type; supported: {known}")
    raise UnsupportedModel(f"model type {shown(name)} is not supported; supported: {known}")


def config_of(family: Family, values: dict[str, Any], where: str = "config.json") -> ModelConfig:
    """The checkpoint's config in our fields; what it does not explain is refused by name."""
    keys = Keys(values, where)
    check_common(keys, family.architectures)
    try:
        config = family.config_from(keys)
    except ConfigError:
        if keys.problems:  # they come first: the config was made without what they refuse
            keys.finish()
        raise
    keys.finish()
    return config
