"""A decoder as a float32 GGUF, and llama.cpp's forms of that.

    python -m benchmarks.quantization.llama_gguf F32.gguf OUT.gguf FORM   (llama-cpp-python)

Only models of the plain Llama shape: RoPE over the whole head, RMSNorm, SwiGLU, no biases.
"""

import ctypes
import sys
from pathlib import Path
from typing import Any

FTYPES = {"f16": 1, "q8_0": 7, "q4_0": 2, "q4_1": 3, "q4_k_m": 15}  # llama.cpp's llama_ftype


def write_gguf(path: Path, decoder: Any, positions: int) -> None:
    """`decoder`: an edgeformer.nn.decoder.Decoder. The file has no vocabulary: it takes ids."""
    import gguf

    c = decoder.config
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_context_length(positions)
    writer.add_embedding_length(c.d_model)
    writer.add_block_count(c.n_layers)
    writer.add_feed_forward_length(c.d_ff)
    writer.add_head_count(c.n_heads)
    writer.add_head_count_kv(c.n_kv_heads)
    writer.add_key_length(c.head_dim)
    writer.add_value_length(c.head_dim)
    writer.add_rope_dimension_count(c.head_dim)
    writer.add_rope_freq_base(c.rope.theta)
    writer.add_layer_norm_rms_eps(c.norm_eps)
    writer.add_vocab_size(c.vocab_size)
    writer.add_tokenizer_model("none")

    def pairs(weight: Any, heads: int) -> Any:
        """Rows in llama.cpp's order: it turns neighbours, we turn halves."""
        return weight.reshape(heads, 2, -1, c.d_model).transpose(1, 2).reshape(-1, c.d_model)

    tensors = {"token_embd": decoder.embedding.weight, "output_norm": decoder.final_norm.weight}
    if not c.tie_embeddings:
        tensors["output"] = decoder.head.weight
    for i, block in enumerate(decoder.blocks):
        sizes = [c.n_heads * c.head_dim, c.kv_width, c.kv_width]
        q, k, v = block.attention.qkv.weight.split(sizes)
        gate, up = block.ff.up.weight.split(c.d_ff)
        made = {
            "attn_norm": block.attention_norm.weight,
            "ffn_norm": block.ff_norm.weight,
            "attn_q": pairs(q, c.n_heads),
            "attn_k": pairs(k, c.n_kv_heads),
            "attn_v": v,
            "attn_output": block.attention.out.weight,
            "ffn_gate": gate,
            "ffn_up": up,
            "ffn_down": block.ff.down.weight,
        }
        tensors.update({f"blk.{i}.{name}": weight for name, weight in made.items()})
    for name, weight in tensors.items():
        writer.add_tensor(f"{name}.weight", weight.detach().contiguous().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def quantize_gguf(source: Path, target: Path, form: str) -> None:
    """llama.cpp's own quantizer, without an importance matrix."""
    import llama_cpp

    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype, params.nthread = FTYPES[form], 1
    if llama_cpp.llama_model_quantize(
        str(source).encode(), str(target).encode(), ctypes.byref(params)
    ):
        raise SystemExit(f"llama.cpp could not make {target}")


if __name__ == "__main__":
    quantize_gguf(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
