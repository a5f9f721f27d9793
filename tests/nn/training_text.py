"""A text to train on and a model that learns it in seconds."""

import json
import random
from pathlib import Path

TINY = {
    "vocab_size": 300,
    "d_model": 16,
    "n_layers": 2,
    "n_heads": 2,
    "d_ff": 24,
    "max_positions": 16,
    "dropout": 0.2,
}
WORDS = [
    "the",
    "a",
    "sea",
    "ship",
    "captain",
    "sailed",
    "over",
    "under",
    "green",
    "grey",
    "morning",
    "of",
    "and",
    "storm,",
    "harbour",
]


def lines(count: int, seed: int = 0) -> str:
    """That many lines, no two alike: each ends in its number."""
    chance = random.Random(seed)
    return "".join(
        " ".join(chance.choice(WORDS) for _ in range(8)) + f" {i}.\n" for i in range(count)
    )


def write(folder: Path, count: int = 120, **changes) -> list[str]:
    """Arguments of a run on such a text, without -o."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "text.txt").write_text(lines(count), encoding="utf-8")
    (folder / "model.json").write_text(json.dumps({**TINY, **changes}), encoding="utf-8")
    arguments = [str(folder / "text.txt"), "--config", str(folder / "model.json")]
    return [*arguments, "--batch-size", "3", "--lr", "0.01", "--threads", "1"]
