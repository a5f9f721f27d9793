"""A GGUF file as the Hugging Face checkpoint that it was made from."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from edgeformer.errors import EdgeformerError
from edgeformer.nn.sources.gguf_archs import ARCHS, Arch
from edgeformer.nn.sources.gguf_file import GgufFile
from edgeformer.nn.sources.gguf_layout import Heads, View, views
from edgeformer.nn.sources.gguf_rope import rope_parameters
from edgeformer.nn.sources.source import Source, Stored, digest_of

ENDS = ("eos_token_id", "eot_token_id", "eom_token_id")
NO_ROPE = ("bloom", "gpt2", "mpt")
MOST_TEMPLATE = 1 << 20  # characters


class GgufSource(Source):
    """See `Source`. The vocabulary is in `metadata`, under tokenizer.ggml."""

    kind = "gguf"
    config_name = "the GGUF metadata"

    def __init__(self, path: Path) -> None:
        self.path, self.where = path, str(path)
        self.file = GgufFile(path)
        self.metadata = self.file.metadata
        self._check_whole()
        self.tokenizer_files: dict[str, Path] = {}
        self.chat_templates = self._chat_templates()
        found = self.metadata.get("general.license")
        self.license = found if isinstance(found, str) else None
        self.family = self.metadata.get("general.architecture")
        self.config: dict[str, Any] = {}
        spans = {name: span[0] for name, span in self.file.spans.items()}
        self.views = {name: View(name, stored) for name, stored in spans.items()}
        if self.family in ARCHS:
            arch = ARCHS[self.family]
            metadata = Metadata(self.file, self.family)
            self.config = metadata.config(arch)
            weights = {name: s for name, s in spans.items() if name not in metadata.read}
            self.views = views(arch, _heads(self.config), weights)
            self.family = arch.family
        self.eos_token_ids = self._eos_token_ids()
        self.sampling: dict[str, Any] = {}

    def names(self) -> Iterable[str]:
        return self.views.keys()

    def stored(self, name: str) -> Stored:
        return self.views[name].stored

    def load(self, name: str, out: torch.Tensor | None = None) -> torch.Tensor:
        view = self.views[name]
        if view.change is None:
            return self.file.load(view.name, out)
        tensor = view.change(self.file.load(view.name))
        return tensor.clone() if out is None else out.copy_(tensor)

    def grid(self, name: str) -> tuple[torch.Tensor, ...] | None:
        """Values, scales and offsets that make the tensor: values * scales + offsets.

        Each float32 of the tensor's own shape and with its rows in the same order, so that what is
        done to the rows of a tensor can be done to these. None where it is not stored so.
        """
        view = self.views[name]
        found = self.file.grid(view.name)
        if found is None:
            return None
        shape = found.values.shape[0], -1
        values = torch.from_numpy(found.values.reshape(shape)).float()
        scales = torch.from_numpy(found.scales).repeat_interleave(32, 1)
        offsets = torch.zeros_like(scales)
        if found.low is not None:
            offsets = torch.from_numpy(found.low).repeat_interleave(32, 1) + 8 * scales
        parts = (values, scales, offsets)
        return parts if view.change is None else tuple(view.change(part) for part in parts)

    def digest(self) -> str:
        return digest_of([self.path])

    def _check_whole(self) -> None:
        parts = self.metadata.get("split.count", 1)
        if parts not in (0, 1):
            raise EdgeformerError(
                f"`{self.path}` is one of {parts} parts; join them first: "
                f"llama-gguf-split --merge {self.path.name} whole.gguf"
            )
        kind = self.metadata.get("general.type", "model")
        if kind != "model":
            raise EdgeformerError(f"`{self.path}` is a GGUF of type {kind!r}, not a model")

    def _chat_templates(self) -> dict[str, str]:
        """`tokenizer.chat_template`, and further ones with a name after it."""
        prefix, templates = "tokenizer.chat_template", {}
        for key, text in self.metadata.items():
            if key == prefix or key.startswith(prefix + "."):
                if not isinstance(text, str) or len(text) > MOST_TEMPLATE:
                    raise EdgeformerError(
                        f"`{self.path}`: {key} is no text of at most {MOST_TEMPLATE} characters"
                    )
                templates[key[len(prefix) + 1 :] or "default"] = text
        return templates

    def _eos_token_ids(self) -> list[int]:
        tokens = self.metadata.get("tokenizer.ggml.tokens")
        limit = len(tokens) if isinstance(tokens, list) else 1 << 31
        ids = (self.metadata.get(f"tokenizer.ggml.{name}") for name in ENDS)
        return list(dict.fromkeys(i for i in ids if type(i) is int and 0 <= i < limit))


class Metadata:
    """The keys of one architecture, each taken once; what nobody takes stays in the config."""

    def __init__(self, file: GgufFile, arch: str) -> None:
        self.file, self.prefix = file, arch + "."
        self.read: set[str] = set()  # tensors that are part of the config
        self.left = {
            key[len(self.prefix) :]: value.tolist() if hasattr(value, "tolist") else value
            for key, value in file.metadata.items()
            if key.startswith(self.prefix)
        }

    def take(self, name: str, default: Any = None) -> Any:
        return self.left.pop(name, default)

    def has(self, tensor: str) -> bool:
        return tensor in self.file.spans

    def size(self, name: str) -> int:
        value = self.left.get(name)
        if type(value) is not int or not 1 <= value <= 1 << 31:
            raise EdgeformerError(f"`{self.file.path}`: {self.prefix}{name} is {value!r}")
        return value

    def config(self, arch: Arch) -> dict[str, Any]:
        """A config.json. Keys that are not understood keep their names and are refused later."""
        width, heads = self.size("embedding_length"), self.size("attention.head_count")
        head_dim = self.left.get("attention.key_length", width // heads)
        config: dict[str, Any] = {"model_type": arch.family, **self._plain(arch, heads, width)}
        if self.take("attention.value_length", head_dim) != head_dim:
            config["attention.value_length"] = "another than attention.key_length"
        if arch.family not in NO_ROPE and type(head_dim) is int and head_dim > 0:
            config["rope_parameters"] = rope_parameters(self, head_dim)
        for name, theirs in arch.keys.items():
            if name in self.left:
                config[theirs] = _unlisted(self.take(name))
        config["tie_word_embeddings"] = not self.has("output.weight")
        config.setdefault("vocab_size", self._rows("token_embd.weight"))
        config |= self._flags(arch)
        config |= self._gemma(arch, width, heads, head_dim)
        return config | {self.prefix + name: value for name, value in self.left.items()}

    def _plain(self, arch: Arch, heads: int, width: int) -> dict[str, Any]:
        """Keys that say what the architecture always is, checked and taken away."""
        for name in ("rope.scaling.finetuned", "tensor_data_layout"):
            self.take(name)
        if self.left.get("attention.causal") is True:
            self.take("attention.causal")
        if arch.family in NO_ROPE and _unlisted(self.left.get("attention.head_count_kv")) == heads:
            self.take("attention.head_count_kv")
        config: dict[str, Any] = {}
        if arch.family == "bloom" and self.left.get("feed_forward_length") == 4 * width:
            self.take("feed_forward_length")
        if arch.family == "mpt":
            config["attn_config"] = self._mpt_attention()
            if isinstance(self.left.get("feed_forward_length"), int):
                ratio = self.left["feed_forward_length"] // width
                if ratio * width == self.left["feed_forward_length"]:
                    config["expansion_ratio"] = ratio
                    self.take("feed_forward_length")
        if self.left.get("attention.sliding_window") == 0:  # llama.cpp's word for none
            self.take("attention.sliding_window")
        return config

    def _mpt_attention(self) -> dict[str, Any]:
        bias = self.take("attention.max_alibi_bias", 0.0)
        clip = self.take("attention.clamp_kqv", 0.0)
        return {"alibi": bias != 0, "alibi_bias_max": bias or 8.0, "clip_qkv": clip or None}

    def _flags(self, arch: Arch) -> dict[str, Any]:
        """What llama.cpp tells from the tensors that are there."""
        flags: dict[str, Any] = {}
        names = ("blk.0.attn_q.bias", "blk.0.attn_qkv.bias", "blk.0.attn_output.bias")
        if arch.bias is not None:
            flags[arch.bias] = any(self.has(name) for name in names)
        if arch.mlp_bias:
            flags["mlp_bias"] = self.has("blk.0.ffn_up.bias")
        if arch.family == "falcon":  # the newest of its three forms can say the other two
            two = self.has("blk.0.attn_norm_2.weight")
            flags |= {"new_decoder_architecture": True, "num_ln_in_parallel_attn": 1 + two}
        if arch.family == "stablelm":
            flags["qk_layernorm"] = self.has("blk.0.attn_q_norm.weight")
            flags["use_parallel_residual"] = not self.has("blk.0.ffn_norm.weight")
        if arch.family == "phi":
            flags["qk_layernorm"] = self.has("blk.0.attn_q_norm.weight")
        return flags

    def _gemma(self, arch: Arch, width: int, heads: int, head_dim: int) -> dict[str, Any]:
        """llama.cpp knows the scale of Gemma's largest models by their number of layers."""
        largest = {"gemma2": 46, "gemma3_text": 62}.get(arch.family)
        if largest is None:
            return {}
        layers = self.file.metadata.get(self.prefix + "block_count")
        config = {"query_pre_attn_scalar": width // heads if layers == largest else head_dim}
        if arch.family == "gemma3_text" and self.prefix + "attention.sliding_window" not in (
            self.file.metadata
        ):
            config["sliding_window_pattern"] = 1  # no windows: every layer is full
        return config

    def _rows(self, name: str) -> int | None:
        return self.file.spans[name][0].shape[0] if name in self.file.spans else None


def _unlisted(value: Any) -> Any:
    """One number for all layers, where a list gives each layer the same."""
    alike = isinstance(value, list) and value and all(item == value[0] for item in value)
    return value[0] if alike else value


def _heads(config: dict[str, Any]) -> Heads:
    """What the layout needs; nonsense is refused where the family reads the config."""

    def count(*names: str) -> int:
        found = (config[name] for name in names if name in config)
        value = next((v for v in found if type(v) is int and v > 0), 1)
        return min(value, 1 << 16)

    queries = count("num_attention_heads", "n_head", "n_heads")
    keys = count("num_key_value_heads", "num_kv_heads", "num_attention_heads", "n_head", "n_heads")
    width = count("hidden_size", "n_embd", "d_model")
    return Heads(queries, keys, count("head_dim") if "head_dim" in config else width // queries)
