"""Make the bundles that the device tests run, on any Python: `python -m tests.export.make_bundles`.

Random models, scaled so that greedy decoding does not repeat itself, through the real exporter.
"""

import dataclasses
import sys
from pathlib import Path

from edgeformer.errors import EdgeformerError
from edgeformer.export.build import Exported, Source, export_decoder
from edgeformer.export.gate import Gate
from edgeformer.nn.config import ModelConfig
from edgeformer.nn.tokenizer_training import make_char_tokenizer, train_byte_bpe
from tests import bundles
from tests.nn.choices import random_decoder

DISTINCT = 16
# Seed and standard deviation, tried until greedy decoding visits that many tokens.
RANDOM = {
    Path(bundles.ROPE): (1, 0.35),
    Path(bundles.HOST): (1, 0.35),
    Path(bundles.HALF): (1, 0.35),
    Path(bundles.BLOCKS): (1, 0.35),
    Path(bundles.INT8): (1, 0.35),
    Path(bundles.FUSED): (1, 0.35),
    Path(bundles.FUSED_LEARNED): (8, 0.8),
    Path(bundles.LEARNED): (8, 0.8),
    Path(bundles.RING): (4, 0.35),
}
PROMPT = "the other thing: "
# Two merges' worth of English, and characters of two to four bytes for the byte-level vocabulary.
TEXT = "the cat and the other thing, here and there; naïve café, 雨 and 🙂. " * 8
CHARACTERS = "".join(map(chr, range(32, 127))) + "é\n"

MODELS = {
    Path(bundles.ROPE): (
        ModelConfig(
            vocab_size=280,
            d_model=32,
            n_layers=2,
            n_heads=4,
            n_kv_heads=2,
            d_ff=32,
            max_positions=120,
            window=(None, 24),
            tie_embeddings=False,
        ),
        {"capacity": 100, "chunk": 16, "tokenizer_json": train_byte_bpe(TEXT, 280)},
    ),
    Path(bundles.LEARNED): (
        ModelConfig(
            vocab_size=98,
            d_model=32,
            n_layers=2,
            n_heads=4,
            d_ff=48,
            max_positions=32,
            position="learned",
            norm="layernorm",
            feed_forward="gelu_tanh",
            qkv_bias=True,
            ff_bias=True,
            attention_out_bias=True,
            tie_embeddings=False,
        ),
        {
            "capacity": 32,
            "tokenizer_json": make_char_tokenizer(CHARACTERS),
            "golden_prompt": "the ot",
        },
    ),
}


_rope, _options = MODELS[Path(bundles.ROPE)]
_wide = dataclasses.replace(_rope, head_dim=16)
MODELS[Path(bundles.FUSED)] = _wide, {**_options, "dialect": "ort"}
_learned, _others = MODELS[Path(bundles.LEARNED)]
MODELS[Path(bundles.FUSED_LEARNED)] = _learned, {**_others, "dialect": "ort"}
MODELS[Path(bundles.HOST)] = _rope, {**_options, "embedding": "host"}
MODELS[Path(bundles.HALF)] = _rope, {**_options, "precision": "fp16"}
# a random model's distributions are flat, and its likeliest tokens change places easily
_loose = {"precision": "n8", "dialect": "ort", "gate": Gate(max_loss=0.5, max_kl=0.5, min_top1=0.3)}
MODELS[Path(bundles.BLOCKS)] = _rope, {**_options, **_loose}
MODELS[Path(bundles.INT8)] = (
    _rope,
    {**_options, **_loose, "precision": "int8-dynamic", "dialect": "portable"},
)
RING = ModelConfig(
    vocab_size=98,
    d_model=32,
    n_layers=2,
    n_heads=4,
    n_kv_heads=2,
    d_ff=32,
    max_positions=160,
    window=(16, 8),
    tie_embeddings=False,
)
MODELS[Path(bundles.RING)] = (
    RING,
    {
        "capacity": 48,
        "chunk": 16,
        "tokenizer_json": make_char_tokenizer(CHARACTERS),
        "golden_prompt": "the other ",
    },
)


def make(path: Path, out: Path) -> Exported:
    """Export the model of a committed bundle to `out`."""
    config, options = MODELS[path]
    seed, std = RANDOM[path]
    return export_decoder(
        random_decoder(config, seed, std),
        out,
        name=path.name,
        target="cpu",
        source=Source(f"random weights, seed {seed}, deviation {std}", license="none needed"),
        force=True,
        **{"golden_prompt": PROMPT, "dialect": "portable", **options},
    )


def main() -> int:
    for path in MODELS:
        made = make(path, path)
        print(f"{path.name}: {made.bytes} bytes, {made.golden.distinct} distinct golden tokens")
        if made.golden.distinct < DISTINCT:
            raise EdgeformerError(f"{path.name} repeats itself; choose another seed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
