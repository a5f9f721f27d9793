"""Reading a checkpoint's config: every key is used, known to be irrelevant, or refused by name."""

from __future__ import annotations

import math
import reprlib
from typing import Any

from edgeformer.errors import EdgeformerError
from edgeformer.nn.config_checks import LARGEST

MOST = 2**31 - 1
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 80
LARGEST_LIST = 2**14  # entries; per-layer and per-frequency lists are far shorter


class UnsupportedModel(EdgeformerError):
    """The checkpoint computes something that a `ModelConfig` cannot say; each reason is named."""


class _Required:
    """The default of a key that must be there."""


REQUIRED = _Required()

# Written by some versions of transformers into every config; none of them reaches the logits.
# fmt: off
IRRELEVANT = frozenset(
    {
        "_name_or_path", "architectures", "auto_map", "model_type", "torch_dtype", "dtype",
        "transformers_version", "transformers.js_config", "tokenizer_class", "tokenizer_name",
        "name_or_path", "prefix", "task_specific_params", "use_cache", "return_dict",
        "use_return_dict", "output_attentions", "output_hidden_states", "output_scores",
        "return_dict_in_generate", "torchscript", "use_bfloat16", "tf_legacy_loss",
        "chunk_size_feed_forward", "bos_token_id", "eos_token_id", "pad_token_id", "sep_token_id",
        "unk_token_id", "decoder_start_token_id", "forced_bos_token_id", "forced_eos_token_id",
        "suppress_tokens", "begin_suppress_tokens", "bad_words_ids", "temperature", "top_k",
        "top_p", "typical_p", "do_sample", "num_beams", "num_beam_groups", "max_length",
        "min_length", "max_new_tokens", "repetition_penalty", "length_penalty",
        "diversity_penalty", "early_stopping", "no_repeat_ngram_size",
        "encoder_no_repeat_ngram_size", "num_return_sequences", "remove_invalid_values",
        "exponential_decay_length_penalty", "id2label", "label2id", "finetuning_task",
        "problem_type", "initializer_range", "init_std", "initializer_factor",
        "gradient_checkpointing", "pretraining_tp", "is_decoder", "attention_dropout",
        "attention_probs_dropout_prob", "attn_pdrop", "resid_pdrop", "embd_pdrop",
        "hidden_dropout", "hidden_dropout_prob", "dropout", "activation_dropout",
        "classifier_dropout", "_attn_implementation", "attn_implementation",
        "_attn_implementation_autoset", "attn_impl", "_flash_attn_2_enabled",
        "use_flash_attention", "use_flash_attn", "unsloth_fixed", "unsloth_version",
        "is_llama_config", "cache_implementation", "init_device", "init_config", "verbose",
        "cross_attention_hidden_size",
    }
)
# fmt: on
# Keys that any config may have, and the only values with which the model is the one of its type.
PLAIN = {
    "is_encoder_decoder": (False,),
    "add_cross_attention": (False,),
    "tie_encoder_decoder": (False,),
    "pruned_heads": ({}, []),
    "rope_interleaved": (False,),
    "use_bidirectional_attention": (False,),
}
PACKED = (
    "its weights are packed ({method}); give the checkpoint that it was made from, in bfloat16, "
    "float16 or float32"
)


def shown(value: Any) -> str:
    """A value for an error message, cut where it is long."""
    return _SHORT.repr(value)


class Keys:
    """One JSON object of a config. A key that is null counts as absent.

    Reading marks a key as understood. What is refused is collected, so that the error of
    `finish` names everything that stands in the way at once.
    """

    def __init__(self, values: dict[str, Any], where: str) -> None:
        self.values = {k: v for k, v in values.items() if v is not None}
        self.null = frozenset(k for k, v in values.items() if v is None)
        self.where, self.seen, self.problems = where, set(IRRELEVANT), []

    def refuse(self, problem: str) -> None:
        self.problems.append(problem)

    def irrelevant(self, *names: str) -> None:
        """These do not reach the logits at inference."""
        self.seen.update(names)

    def has(self, name: str) -> bool:
        return name in self.values

    def unless_null(self, name: str, default: Any) -> Any:
        """The default of a key that has a meaning when it is null: none, not the default."""
        return None if name in self.null else default

    def raw(self, name: str, default: Any = None) -> Any:
        self.seen.add(name)
        return self.values.get(name, default)

    def integer(
        self,
        name: str,
        default: Any = REQUIRED,
        also: str | None = None,
        least: int = 1,
        most: int = MOST,
    ) -> Any:
        """A whole number; `also` is a second spelling of the key."""
        value = self._value(name, default, also)
        if value is default:
            return default
        whole = isinstance(value, int) and not isinstance(value, bool)
        if not whole or not least <= value <= most:
            raise self.error(name, f"a whole number from {least} to {most}")
        return value

    def layers(self, name: str, also: str | None = None) -> int:
        """The number of layers; bounded here, since lists of that length are made of it."""
        return self.integer(name, also=also, most=LARGEST["n_layers"])

    def number(self, name: str, default: Any = REQUIRED, also: str | None = None) -> Any:
        value = self._value(name, default, also)
        if value is default:
            return default
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self.error(name, "a number")
        if abs(value) > 2**53 or not math.isfinite(value):
            raise self.error(name, "a finite number")
        return float(value)

    def flag(self, name: str, default: Any = REQUIRED) -> Any:
        value = self._value(name, default)
        if value is not default and not isinstance(value, bool):
            raise self.error(name, "true or false")
        return value

    def choice(self, name: str, choices: dict[str, Any], default: Any = REQUIRED) -> Any:
        """The entry of `choices` that the text names; any other text is refused by name."""
        value = self._value(name, default)
        if value is not default and not (isinstance(value, str) and value in choices):
            self.refuse(f"{name} is {shown(value)}; supported here: {', '.join(sorted(choices))}")
            return next(iter(choices.values()))
        return choices[value]

    def only(self, name: str, *allowed: Any) -> None:
        """The key may be absent; with any value but these it would change the mathematics."""
        self.seen.add(name)
        value = self.values.get(name)
        if value is not None and not any(type(a) is type(value) and a == value for a in allowed):
            self.refuse(f"{name} is {shown(value)}, which is not supported")

    def items(self, name: str, kind: type | tuple[type, ...], count: int | None = None) -> Any:
        """A list of plain values, or None."""
        self.seen.add(name)
        value = self.values.get(name)
        if value is None:
            return None
        fits = isinstance(value, list) and len(value) <= LARGEST_LIST
        if not fits or not all(isinstance(item, kind) for item in value):
            kinds = kind if isinstance(kind, tuple) else (kind,)
            raise self.error(name, f"a list of {' or '.join(k.__name__ for k in kinds)}")
        if count is not None and len(value) != count:
            raise self.error(name, f"a list of {count} entries")
        return value

    def table(self, name: str, default: Any = None) -> Any:
        self.seen.add(name)
        value = self.values.get(name, default)
        if value is not default and not isinstance(value, dict):
            raise self.error(name, "a table of keys")
        return value

    def finish(self) -> None:
        """Raise one error with every reason against this model, unexplained keys among them."""
        unknown = sorted(set(self.values) - self.seen)
        problems = self.problems + [
            f"the key {shown(name)} ({shown(self.values[name])}) is not understood"
            for name in unknown
        ]
        if problems:
            raise UnsupportedModel(f"{self.where}: not supported: {'; '.join(problems)}")

    def error(self, name: str, expected: str) -> EdgeformerError:
        found = shown(self.values.get(name))
        return EdgeformerError(f"{self.where}: {name} is {found}; expected {expected}")

    def _value(self, name: str, default: Any, also: str | None = None) -> Any:
        self.seen.update({name, also} - {None})
        value = self.values.get(name, self.values.get(also))
        if also in self.values and value != self.values[also]:
            raise EdgeformerError(
                f"{self.where}: {name} is {shown(value)} but {also}, its other name, is "
                f"{shown(self.values[also])}"
            )
        if value is not None:
            return value
        if default is REQUIRED:
            raise EdgeformerError(f"{self.where} lacks the key {name}")
        return default


def check_plain(keys: Keys) -> None:
    """Also for inner configs: transformers writes the same keys there."""
    for name, allowed in PLAIN.items():
        keys.only(name, *allowed)


def check_common(keys: Keys, architectures: tuple[str, ...]) -> None:
    """What holds for every family: a plain causal decoder with unpacked weights."""
    check_plain(keys)
    for name in ("quantization_config", "compression_config"):
        if keys.has(name):
            packing = keys.table(name, {})
            method = str(packing.get("quant_method", packing.get("format", name)))[:40]
            keys.refuse(PACKED.format(method=method))
    for name in ("text_config", "vision_config", "audio_config"):
        if keys.raw(name) is not None:
            keys.refuse(f"{name}: models with more than text are not supported")
    found = keys.items("architectures", str) or []
    if found and not set(found) & set(architectures):
        keys.refuse(f"architectures is {shown(found)}; supported here: {', '.join(architectures)}")
