"""Which engine runs which precision, through which worker, on which form of the model."""

from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional

from edgeformer.errors import EdgeformerError


class Kind(NamedTuple):
    """One precision of one engine. Those with equal `bits` of a weight are held side by side."""

    form: str  # of the model, see forms.py
    bits: int
    options: Dict[str, Any]


class Peer(NamedTuple):
    worker: str
    environment: str
    kinds: Dict[str, Kind]


# llama.cpp keeps its cache in f16 unless told otherwise; float32 means all of it.
_LLAMA = {"cache": "f16", "flash_attention": True}
_CT2 = {precision: {"compute": precision} for precision in ("float32", "int8")}

PEERS = {
    "edgeformer": Peer(
        "ours",
        "edgeformer",
        {
            "fp32": Kind("bundle-fp32", 32, {}),
            "n8": Kind("bundle-n8", 8, {}),
            "int8-dynamic": Kind("bundle-int8-dynamic", 8, {}),
            "n4": Kind("bundle-n4", 4, {}),
        },
    ),
    "transformers": Peer(
        "hf",
        "transformers",
        {
            "fp32": Kind("hf", 32, {"dtype": "fp32"}),
            "bf16": Kind("hf", 16, {"dtype": "bf16"}),
        },
    ),
    "optimum-onnx": Peer(
        "optimum_onnx",
        "optimum-onnx",
        {"fp32": Kind("optimum-fp32", 32, {}), "int8": Kind("optimum-int8", 8, {})},
    ),
    "onnxruntime-genai": Peer(
        "genai",
        "onnxruntime-genai",
        {
            "fp32": Kind("genai-fp32", 32, {}),
            "int8": Kind("genai-int8", 8, {}),
            "int4": Kind("genai-int4", 4, {}),
        },
    ),
    "llama.cpp": Peer(
        "llama",
        "llama.cpp",
        {
            "f32": Kind("f32.gguf", 32, dict(_LLAMA, cache="f32")),
            "f16": Kind("f16.gguf", 16, _LLAMA),
            "q8_0": Kind("q8_0.gguf", 8, _LLAMA),
            "q4_0": Kind("q4_0.gguf", 4, _LLAMA),
            "q4_1": Kind("q4_1.gguf", 4, _LLAMA),
            "q4_k_m": Kind("q4_k_m.gguf", 4, _LLAMA),
        },
    ),
    "ctranslate2": Peer(
        "ct2",
        "ctranslate2",
        {
            "float32": Kind("ct2-float32", 32, _CT2["float32"]),
            "int8": Kind("ct2-int8", 8, _CT2["int8"]),
        },
    ),
}
REFERENCE = "transformers:fp32"


class Chosen(NamedTuple):
    """One engine at one precision; `path`: a bundle that is there already."""

    name: str
    engine: str
    precision: str
    path: Optional[str]

    @property
    def peer(self) -> Peer:
        return PEERS[self.engine]

    @property
    def kind(self) -> Kind:
        return self.peer.kinds[self.precision]


def known() -> List[str]:
    return [f"{engine}:{p}" for engine, peer in PEERS.items() for p in peer.kinds]


def parse_engines(text: str) -> List[Chosen]:
    """`ENGINE:PRECISION,...`; a bundle that is there: `edgeformer:n8@FOLDER`; `all`."""
    parts = known() if text == "all" else [part.strip() for part in text.split(",")]
    chosen = [parse_engine(part) for part in parts]
    twice = {c.name for c in chosen if sum(c.name == other.name for other in chosen) > 1}
    if twice:
        raise EdgeformerError(f"--engines has {', '.join(sorted(twice))} more than once")
    return chosen


def parse_engine(text: str) -> Chosen:
    name, _, path = text.partition("@")
    engine, _, precision = name.partition(":")
    if precision not in PEERS.get(engine, Peer("", "", {})).kinds:
        raise EdgeformerError(
            f"--engines has {text[:60]!r}; known: {', '.join(known())}; "
            "edgeformer's may name a bundle, as in edgeformer:n8@bundles/mine"
        )
    if path and engine != "edgeformer":
        raise EdgeformerError(f"--engines has {text[:60]!r}: only edgeformer takes a folder")
    # Its last folder alone: where a bundle lies is nobody's business who reads a result.
    shown = f"{name}@{Path(path).name}" if path else name
    return Chosen(shown, engine, precision, path or None)


def parse_pairs(text: Optional[str], chosen: List[Chosen]) -> List[List[Chosen]]:
    """Which two are compared: `A//B,...`, or ours beside every other with as many bits."""
    if text is None:
        ours = [c for c in chosen if c.engine == "edgeformer"]
        others = [c for c in chosen if c.engine != "edgeformer"]
        return [[a, b] for a in ours for b in others if a.kind.bits == b.kind.bits]
    by_name = {c.name: c for c in chosen}
    pairs = [part.strip().split("//") for part in text.split(",")]
    for pair in pairs:
        unknown = [name for name in pair if name not in by_name]
        if len(pair) != 2 or unknown:
            raise EdgeformerError(
                f"--pairs has {'//'.join(pair)[:80]!r}; write A//B,C//D with names of --engines: "
                f"{', '.join(by_name)}"
            )
    return [[by_name[name] for name in pair] for pair in pairs]
