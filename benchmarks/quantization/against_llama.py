"""Our 4 and 8 bits beside llama.cpp's, on the same windows of the same text, by KL from float32.

    python -m benchmarks.quantization.against_llama write MODEL TEXT FOLDER   (host environment)
    python -m benchmarks.quantization.against_llama measure FOLDER            (llama-cpp-python)

`write` stores the model as a float32 GGUF, the windows, PyTorch's logits in float32 and what our
own forms cost; `measure` quantizes the GGUF with llama.cpp, reads the windows with it, and prints
rows of a table. Only models of the plain Llama shape: RoPE over the whole head, RMSNorm, SwiGLU,
no biases.
"""

import json
import sys
from pathlib import Path
from typing import Any, Callable, Dict

import numpy as np

from benchmarks.quantization.divergence import divergence
from benchmarks.quantization.llama_gguf import quantize_gguf, write_gguf

FORMS = ("n8", "n4")
LLAMA_FORMS = ("f32", "Q8_0", "Q4_0", "Q4_1", "Q4_K_M")


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
        rows[f"edgeformer {form}"] = row(folder, logits, size)
    (folder / "ours.json").write_text(json.dumps(rows, indent=1))


def measure(folder: Path) -> None:
    import llama_cpp

    rows = json.loads((folder / "ours.json").read_text())
    windows = np.load(folder / "windows.npy")
    for name in LLAMA_FORMS:
        path = folder / f"{name}.gguf"
        if name != "f32":
            quantize_gguf(folder / "f32.gguf", path, name.lower())
        model = llama_cpp.Llama(
            str(path), n_ctx=windows.shape[1], n_batch=windows.shape[1], logits_all=True,
            n_threads=1, n_threads_batch=1, verbose=False,
        )  # fmt: skip

        def logits(ids: np.ndarray, model: Any = model) -> np.ndarray:
            model.reset()
            model.eval(ids.tolist())
            return np.array(model.scores[: len(ids)], np.float32)

        rows[f"llama.cpp {name}"] = row(folder, logits, path.stat().st_size)
    (folder / "result.json").write_text(json.dumps(rows, indent=1) + "\n")
    for name, r in rows.items():
        shares = f"{r['loss']:+.2%} | {r['kl']:.5f} | {r['top1']:.1%}"
        print(f"| {name} | {r['bytes'] / 1e6:.3f} | {shares} |")


def row(folder: Path, logits: Callable[[np.ndarray], np.ndarray], size: int) -> Dict[str, float]:
    windows, wanted = np.load(folder / "windows.npy"), np.load(folder / "reference.npy", "r")
    found = divergence(windows, wanted, logits)
    loss = found["perplexity"] / found["reference_perplexity"] - 1
    return {"bytes": size, "loss": loss, "kl": found["kl"], "top1": found["top1"]}


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(sys.argv[2], sys.argv[3], Path(sys.argv[4]))
    else:
        measure(Path(sys.argv[2]))
