"""Our 4 and 8 bits beside llama.cpp's, on the same windows of the same text, by KL from float32.

    python -m benchmarks.quantization.against_llama write MODEL TEXT FOLDER   (host environment)
    python benchmarks/quantization/against_llama.py measure FOLDER            (llama-cpp-python)

`write` stores the model as a float32 GGUF, the windows, PyTorch's logits in float32 and what our
own forms cost; `measure` quantizes the GGUF with llama.cpp, reads the windows with it, and prints
rows of a table. Only models of the plain Llama shape: RoPE over the whole head, RMSNorm, SwiGLU,
no biases.
"""

import ctypes
import json
import math
import sys
from pathlib import Path
from typing import Any, Dict, Iterable

import numpy as np

FORMS = ("n8", "n4")
FTYPES = {"f32": 0, "Q8_0": 7, "Q4_0": 2, "Q4_1": 3, "Q4_K_M": 15}  # llama.cpp's llama_ftype


def write(model: str, text: str, folder: Path) -> None:

    from edgeformer.export.graphs import skeleton, trace
    from edgeformer.export.precisions import PRECISIONS
    from edgeformer.export.quality import WINDOW, graph_logits, torch_logits
    from edgeformer.export.quality_command import read_source, write_prefill
    from edgeformer.export.reading import Texts
    from edgeformer.nn.families.load import load_decoder, plan_decoder
    from edgeformer.nn.sources import open_source

    source = open_source(model)
    config = plan_decoder(source).config
    reading = read_source(source, config, Texts(Path(text), Path(text)), True)
    window = min(WINDOW, config.max_positions)
    decoder = load_decoder(source, window).eval()
    folder.mkdir(parents=True, exist_ok=True)
    write_gguf(folder / "f32.gguf", decoder, window)
    np.save(folder / "windows.npy", np.array(reading.windows, np.int32))
    reference = torch_logits(decoder)
    np.save(folder / "reference.npy", np.stack([reference(w) for w in reading.windows]))
    rows = {}
    for form in FORMS:
        made = PRECISIONS[form].quantize(decoder, reading.calibration, lambda part: None)
        part = folder / form
        part.mkdir(exist_ok=True)
        traced = trace(skeleton(decoder.config), "prefill", decoder.state_dict())
        logits = graph_logits(write_prefill(made.rewrite(traced), part), decoder.config)
        size = (part / "weights.bin").stat().st_size
        rows[f"edgeformer {form}"] = row(folder, (logits(w) for w in reading.windows), size)
    (folder / "ours.json").write_text(json.dumps(rows, indent=1))


def write_gguf(path: Path, decoder: Any, window: int) -> None:
    import gguf

    c = decoder.config
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_context_length(window)
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


def measure(folder: Path) -> None:
    import llama_cpp

    rows = json.loads((folder / "ours.json").read_text())
    windows = np.load(folder / "windows.npy")
    for name, ftype in FTYPES.items():
        path = folder / f"{name}.gguf"
        if name != "f32":
            params = llama_cpp.llama_model_quantize_default_params()
            params.ftype, params.nthread = ftype, 1
            source, target = str(folder / "f32.gguf").encode(), str(path).encode()
            if llama_cpp.llama_model_quantize(source, target, ctypes.byref(params)):
                raise SystemExit(f"llama.cpp could not make {path}")
        model = llama_cpp.Llama(
            str(path), n_ctx=windows.shape[1], n_batch=windows.shape[1], logits_all=True,
            n_threads=1, n_threads_batch=1, verbose=False,
        )  # fmt: skip

        def logits(ids: np.ndarray, model: Any = model) -> np.ndarray:
            model.reset()
            model.eval(ids.tolist())
            return np.array(model.scores[: len(ids)], np.float32)

        rows[f"llama.cpp {name}"] = row(folder, map(logits, windows), path.stat().st_size)
    (folder / "result.json").write_text(json.dumps(rows, indent=1) + "\n")
    for name, r in rows.items():
        shares = f"{r['loss']:+.2%} | {r['kl']:.5f} | {r['top1']:.1%}"
        print(f"| {name} | {r['bytes'] / 1e6:.3f} | {shares} |")


def row(folder: Path, found: Iterable[np.ndarray], size: int) -> Dict[str, float]:
    windows, wanted = np.load(folder / "windows.npy"), np.load(folder / "reference.npy", "r")
    nats = reference = kl = equal = tokens = 0.0
    for ids, want, got in zip(windows, wanted, found, strict=True):
        p, q = (log_softmax(x[:-1]) for x in (want, got))
        at = np.arange(len(ids) - 1), ids[1:]
        nats, reference = nats - q[at].sum(), reference - p[at].sum()
        kl += (np.exp(p) * (p - q)).sum()
        equal += (p.argmax(1) == q.argmax(1)).sum()
        tokens += len(ids) - 1
    loss = math.exp((nats - reference) / tokens) - 1
    return {"bytes": size, "loss": loss, "kl": kl / tokens, "top1": equal / tokens}


def log_softmax(x: np.ndarray) -> np.ndarray:
    x = x.astype(np.float64) - x.max(1, keepdims=True)
    return x - np.log(np.exp(x).sum(1, keepdims=True))


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(sys.argv[2], sys.argv[3], Path(sys.argv[4]))
    else:
        measure(Path(sys.argv[2]))
