"""The forms that the project makes itself: `python -m benchmarks.peers.making hf|gguf|ids ...`."""

import json
import sys
from pathlib import Path
from typing import Any

import torch

from benchmarks.quantization.llama_gguf import write_gguf
from edgeformer.export.reading import SAMPLE
from edgeformer.export.words import Words, read_words
from edgeformer.nn.checkpoint import save_tensors
from edgeformer.nn.data import read_text
from edgeformer.nn.exit_status import exit_status
from edgeformer.nn.families.load import load_decoder, plan_decoder
from edgeformer.nn.sources import open_source

IDS = 4096  # of the text: prompts and the windows behind them


def write_hf(model: str, target: Path) -> None:
    """A Hugging Face folder in float32 that transformers 4 and 5 read."""
    source = open_source(model)
    plan = plan_decoder(source)
    if plan.config.rope is None:
        raise SystemExit(f"{model} is no Llama: it has no rotary position")
    words = read_words(source)
    config = dict(source.config, architectures=["LlamaForCausalLM"], torch_dtype="float32")
    # transformers 4 knows only the first, and would silently take 10000.
    config["rope_theta"] = plan.config.rope.theta
    ends = {"eos_token_id": list(source.eos_token_ids)} if source.eos_token_ids else {}
    config.update(ends)
    target.mkdir()
    notes = {"format": "pt"}
    tensors = {name: source.load(name).contiguous() for name in source.names()}
    save_tensors(tensors, target / "model.safetensors", notes)
    _write(target / "config.json", config)
    _write(target / "generation_config.json", ends)
    if words is not None:
        (target / "tokenizer.json").write_text(words.tokenizer_json, "utf-8")
        _write(target / "tokenizer_config.json", _tokenizer_config(words))


def _tokenizer_config(words: Words) -> Any:
    named = {k: v for k, v in words.named_tokens.items() if k in ("bos_token", "eos_token")}
    return dict(named, tokenizer_class="PreTrainedTokenizerFast", unk_token=None)


def write_f32(model: str, target: Path) -> None:
    decoder = load_decoder(open_source(model)).eval()
    with torch.no_grad():
        write_gguf(target, decoder, decoder.config.max_positions)


def write_ids(model: str, target: Path) -> None:
    """Ids of the sample text, or random ones where the model has no tokenizer."""
    source = open_source(model)
    words, size = read_words(source), plan_decoder(source).config.vocab_size
    if words is None:
        what = "random ids, seed 0"
        ids = torch.randint(size, (IDS,), generator=torch.Generator().manual_seed(0)).tolist()
    else:
        import tokenizers

        what = SAMPLE.name
        tokenizer = tokenizers.Tokenizer.from_str(words.tokenizer_json)
        ids = tokenizer.encode(read_text(SAMPLE), add_special_tokens=False).ids[:IDS]
    _write(target, {"text": what, "ids": ids})


def _write(path: Path, document: Any) -> None:
    path.write_text(json.dumps(document, indent=1) + "\n", "utf-8")


def main(what: str, model: str, target: str) -> int:
    {"hf": write_hf, "gguf": write_f32, "ids": write_ids}[what](model, Path(target))
    return 0


if __name__ == "__main__":
    sys.exit(exit_status(lambda: main(*sys.argv[1:])))
