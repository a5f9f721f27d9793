"""Speeds that others published for these boards, beside what is predicted for the same bytes.

`python -m edgeformer.speed.published` prints the table of docs/prediction.md. None of them is a
TensorRT engine of ours: there is no such figure yet.
"""

import sys
from typing import List, NamedTuple

from edgeformer.speed import facts
from edgeformer.speed.costs import Step
from edgeformer.speed.predict import Prediction, predict

_LLAMA_NANO = "https://github.com/kreier/llama.cpp-jetson"
_LAB = "https://www.jetson-ai-lab.com/tutorial_slm.html"
# Of our graphs, by layer: nodes that run, and those that compute (the 135M preset's, of 30 layers).
NODES, COMPUTING = 1158 / 30, 732 / 30


class Row(NamedTuple):
    """A decoding speed that somebody published: bytes of weights, parameters, tokens a second."""

    board: str
    model: str
    engine: str
    megabytes: float
    parameters: float
    layers: int
    tokens_per_s: float
    source: str


ROWS = (
    Row("jetson-nano-4gb", "TinyLlama 1.1B Q4_K_M", "llama.cpp, CUDA", 667, 1.1e9, 22, 6.69,
        _LLAMA_NANO),
    Row("jetson-nano-4gb", "Gemma 3 1B Q4_K_M", "llama.cpp, CUDA", 799, 1.0e9, 26, 5.84,
        _LLAMA_NANO),
    Row("jetson-nano-4gb", "Qwen3 0.6B Q4_K_M", "llama.cpp, CUDA", 391, 0.6e9, 28, 7.7,
        "https://github.com/kreier/llama.cpp-jetson/issues/3"),
    Row("jetson-nano-4gb", "Gemma 3 4B Q2_K", "llama.cpp, CUDA", 1700, 3.9e9, 34, 1.52,
        _LLAMA_NANO),
    Row("jetson-orin-nano-8gb", "SmolLM2 135M, 4 bits", "llama.cpp, 25 W", 101, 0.135e9, 30, 165.2,
        "https://smolhub.com/posts/jetson-nano-super-benchmark-non-reasoning/"),
    Row("jetson-orin-nano-8gb", "Llama 3.2 1B, 4 bits", "MLC", 700, 1.24e9, 16, 54.8, _LAB),
    Row("jetson-orin-nano-8gb", "Llama 3.2 3B, 4 bits", "MLC", 1810, 3.21e9, 28, 27.7, _LAB),
)  # fmt: skip
HEAD = ("board", "model", "engine", "MB", "published", "predicted", "published is")


def predicted(row: Row) -> Prediction:
    """For a board that reads these bytes once a token and launches what our graph of as many layers
    does; that 4 bits must be unpacked is not in it."""
    step = Step(
        tokens=1,
        past=0,
        weight_bytes=int(row.megabytes * 1e6),
        cache_bytes=0,
        flops=int(2 * row.parameters),
        products=0,
        nodes=int(NODES * row.layers),
        least_nodes=int(COMPUTING * row.layers),
    )
    return predict(step, facts.machine(row.board, "fp16"), compiled=True)


def verdict(row: Row) -> str:
    low, _, high = predicted(row).per_second()
    if low <= row.tokens_per_s <= high:
        return "inside"
    below = row.tokens_per_s < low
    return f"{row.tokens_per_s / (low if below else high):.2f} of the {'low' if below else 'high'}"


def table() -> str:
    """Markdown."""
    lines: List[str] = ["| " + " | ".join(HEAD) + " |", "|" + "---|" * len(HEAD)]
    for row in ROWS:
        low, _, high = predicted(row).per_second()
        cells = [row.board, f"[{row.model}]({row.source})", row.engine, f"{row.megabytes:.0f}"]
        cells += [f"{row.tokens_per_s:g}", f"{low:.1f} to {high:.1f}", verdict(row)]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(table() + "\n")
