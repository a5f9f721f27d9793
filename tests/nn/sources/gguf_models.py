"""Tiny GGUF files, made of `transformers` models as llama.cpp's converter makes them.

Tensor names come from the package's own table, so that ours are held against another's.
"""

import re
from pathlib import Path

import gguf
import numpy as np
import torch

# model type -> architecture, and the ways in which the converter changes tensors
ARCHS = {
    "llama": ("llama", "permute"),
    "granite": ("granite", "permute"),
    "smollm3": ("smollm3", "permute"),
    "qwen2": ("qwen2",),
    "qwen3": ("qwen3",),
    "olmo2": ("olmo2",),
    "gemma": ("gemma", "plus_one"),
    "gemma2": ("gemma2", "plus_one"),
    "gemma3_text": ("gemma3", "plus_one"),
    "phi": ("phi2",),
    "phi3": ("phi3",),
    "gpt2": ("gpt2", "transpose"),
    "gpt_neox": ("gptneox", "by_head"),
    "bloom": ("bloom", "by_head"),
    "mpt": ("mpt",),
    "falcon": ("falcon", "by_group"),
    "stablelm": ("stablelm", "stack_norms"),
    "starcoder2": ("starcoder2",),
}


def architecture(name: str) -> gguf.MODEL_ARCH:
    return next(arch for arch, text in gguf.MODEL_ARCH_NAMES.items() if text == name)


def converted(model: torch.nn.Module) -> dict[str, np.ndarray]:
    """The tensors as the converter writes them, under their GGUF names."""
    c = model.config
    arch, *ways = ARCHS[c.model_type]
    names = gguf.get_tensor_name_map(architecture(arch), c.num_hidden_layers)
    state = dict(model.state_dict())
    if c.tie_word_embeddings:
        state = {n: w for n, w in state.items() if not n.startswith(("lm_head.w", "embed_out"))}
    if "stack_norms" in ways:
        state = stacked_norms(state)
    tensors = {}
    for name, tensor in state.items():
        if name.endswith((".attn.bias", ".masked_bias")):
            continue
        bare = name.removeprefix("transformer.") if c.model_type == "bloom" else name
        new = names.get_name(bare, try_suffixes=(".weight", ".bias"))
        assert new is not None, name
        tensors[new] = changed(name, tensor, ways, c).float().contiguous().numpy()
    return tensors


def stacked_norms(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    stacked: dict[str, list[torch.Tensor]] = {}
    for name, tensor in state.items():
        stacked.setdefault(re.sub(r"_layernorm\.norms\.\d+\.", "_layernorm.", name), []).append(
            tensor
        )
    return {n: torch.stack(ts) if "_layernorm." in n else ts[0] for n, ts in stacked.items()} | {
        n: ts[0] for n, ts in stacked.items() if "input_layernorm" in n or "attention_layer" in n
    }


def changed(name: str, w: torch.Tensor, ways: list[str], c) -> torch.Tensor:
    if "permute" in ways and re.search(r"\.[qk]_proj\.", name):
        heads = c.num_attention_heads if ".q_proj" in name else c.num_key_value_heads
        return (
            w.reshape(heads, 2, w.shape[0] // heads // 2, *w.shape[1:])
            .swapaxes(1, 2)
            .reshape(w.shape)
        )
    if "plus_one" in ways and name.endswith("norm.weight"):
        return w + 1
    if "transpose" in ways and re.search(r"\.(c_attn|c_proj|c_fc)\.weight$", name):
        return w.t()
    if "query_key_value" in name:
        if "by_head" in ways:
            parts = w.reshape(c.num_attention_heads, 3, -1, *w.shape[1:])
            return torch.cat([parts[:, i].reshape(-1, *w.shape[1:]) for i in range(3)])
        keys = kv_heads(c)
        parts = w.reshape(keys, c.num_attention_heads // keys + 2, -1, *w.shape[1:])
        return torch.cat(
            [p.reshape(-1, *w.shape[1:]) for p in (parts[:, :-2], parts[:, -2], parts[:, -1])]
        )
    return w


def kv_heads(c) -> int:
    if c.model_type == "falcon":
        grouped = c.new_decoder_architecture or not c.multi_query
        return c.num_kv_heads if grouped else 1
    return getattr(c, "num_key_value_heads", None) or c.num_attention_heads


def write_gguf(
    path: Path,
    model: torch.nn.Module,
    quantization: gguf.GGMLQuantizationType | None = None,
    **metadata,
) -> None:
    """`quantization` is for the matrices of layers whose rows fit its blocks."""
    c = model.config
    writer = gguf.GGUFWriter(path, ARCHS[c.model_type][0])
    add_sizes(writer, c)
    add_rope(writer, c)
    add_rest(writer, c)
    for key, value in metadata.items():
        value = value.tolist() if isinstance(value, np.ndarray) else value
        writer.add_key_value(key, value, gguf.GGUFValueType.get_type(value))
    block = 1 if quantization is None else gguf.GGML_QUANT_SIZES[quantization][0]
    for name, data in converted(model).items():
        if quantization is not None and data.ndim == 2 and data.shape[1] % block == 0:
            writer.add_tensor(
                name, gguf.quants.quantize(data, quantization), raw_dtype=quantization
            )
        else:
            writer.add_tensor(name, data)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def add_sizes(writer: gguf.GGUFWriter, c) -> None:
    width = c.hidden_size
    lengths = ("max_position_embeddings", "max_seq_len", "seq_length")
    writer.add_context_length(next((getattr(c, n) for n in lengths if hasattr(c, n)), 64))
    writer.add_embedding_length(width)
    writer.add_block_count(c.num_hidden_layers)
    inner = ("intermediate_size", "n_inner", "ffn_hidden_size")
    writer.add_feed_forward_length(
        next((getattr(c, n) for n in inner if getattr(c, n, None)), 4 * width)
    )
    writer.add_head_count(c.num_attention_heads)
    if c.model_type not in ("gpt2", "gpt_neox", "mpt"):
        writer.add_head_count_kv(kv_heads(c))
    if hasattr(c, "rms_norm_eps"):
        writer.add_layer_norm_rms_eps(c.rms_norm_eps)
    for name in ("layer_norm_eps", "layer_norm_epsilon", "norm_epsilon"):
        if hasattr(c, name):
            writer.add_layer_norm_eps(getattr(c, name))
    if getattr(c, "head_dim", None) and c.model_type not in ("falcon", "granite"):
        writer.add_key_length(c.head_dim)
        writer.add_value_length(c.head_dim)


def add_rope(writer: gguf.GGUFWriter, c) -> None:
    rope = getattr(c, "rope_parameters", None)
    if not rope:
        return
    block = rope.get("full_attention", rope)
    head_dim = getattr(c, "head_dim", None) or c.hidden_size // c.num_attention_heads
    part = block.get("partial_rotary_factor", 1.0)
    writer.add_rope_dimension_count(int(part * head_dim))
    writer.add_rope_freq_base(block["rope_theta"])
    if "sliding_attention" in rope:
        writer.add_rope_freq_base_swa(rope["sliding_attention"]["rope_theta"])
    kind = block["rope_type"]
    if kind in ("linear", "yarn"):
        writer.add_rope_scaling_type(gguf.RopeScalingType(kind))
        writer.add_rope_scaling_factor(block["factor"])
    if kind == "yarn":
        writer.add_rope_scaling_orig_ctx_len(block["original_max_position_embeddings"])
        writer.add_rope_scaling_yarn_beta_fast(block["beta_fast"])
        writer.add_rope_scaling_yarn_beta_slow(block["beta_slow"])
    if kind == "llama3":
        writer.add_tensor("rope_freqs.weight", llama3_divisors(block, head_dim))
    if c.model_type == "phi3":
        writer.add_rope_scaling_orig_ctx_len(c.original_max_position_embeddings)
    if kind == "longrope":
        scale = c.max_position_embeddings / c.original_max_position_embeddings
        original = np.log(c.original_max_position_embeddings)
        writer.add_rope_scaling_attn_factors(float(np.sqrt(1 + np.log(scale) / original)))
        for name in ("long", "short"):
            factors = np.array(block[f"{name}_factor"], np.float32)
            writer.add_tensor(f"rope_factors_{name}.weight", factors)


def llama3_divisors(block: dict, head_dim: int) -> np.ndarray:
    freqs = 1.0 / block["rope_theta"] ** (np.arange(0, head_dim, 2) / head_dim)
    turns = block["original_max_position_embeddings"] * freqs / (2 * np.pi)
    low, high = block["low_freq_factor"], block["high_freq_factor"]
    smooth = np.clip((turns - low) / (high - low), 0, 1)
    return (1 / ((1 - smooth) / block["factor"] + smooth)).astype(np.float32)


def add_rest(writer: gguf.GGUFWriter, c) -> None:
    if c.model_type in ("gpt_neox", "stablelm"):
        writer.add_parallel_residual(c.use_parallel_residual)
    if c.model_type in ("gemma2", "gemma3_text", "phi3"):
        writer.add_sliding_window(c.sliding_window or 0)
    if c.model_type == "gemma2":
        writer.add_attn_logit_softcapping(c.attn_logit_softcapping)
    if getattr(c, "final_logit_softcapping", None):
        writer.add_final_logit_softcapping(c.final_logit_softcapping)
    if c.model_type == "granite":
        writer.add_attention_scale(c.attention_multiplier)
        writer.add_embedding_scale(c.embedding_multiplier)
        writer.add_residual_scale(c.residual_multiplier)
        writer.add_logit_scale(c.logits_scaling)
    if c.model_type == "mpt":
        writer.add_max_alibi_bias(8.0)
    if c.model_type == "falcon":
        writer.add_tensor_data_layout("jploski")
