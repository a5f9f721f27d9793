"""Bits per character of a checkpoint on a text: `python -m edgeformer.nn.evaluate FOLDER TEXT`."""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from edgeformer.errors import EdgeformerError

if TYPE_CHECKING:
    import torch

    from edgeformer.nn.decoder import Decoder
    from edgeformer.text import Tokenizer


def bits_per_character(
    decoder: Decoder, tokenizer: Tokenizer, ids: torch.Tensor, sequence: int, stride: int
) -> float:
    """Bits that the model needs for a text, a character; `ids` are the text's tokens, int64 [n].

    Every token but the first is predicted once, in windows of `sequence` tokens that begin
    `stride` apart: from the second window on a token has at least `sequence - stride` before it.
    """
    if len(ids) < 2:
        raise EdgeformerError(
            f"the held-out text has {len(ids)} tokens; 2 are needed to predict one: hold out more"
        )
    characters = len(tokenizer.decode(ids[1:].tolist()))
    return nats(decoder, ids, sequence, stride) / math.log(2) / characters


def nats(decoder: Decoder, ids: torch.Tensor, sequence: int, stride: int) -> float:
    """Sum of -ln p over all tokens but the first, in float64."""
    import torch

    sequence = min(sequence, len(ids) - 1)
    last = len(ids) - 1 - sequence
    starts = [*range(0, last, stride), last]
    training = decoder.training
    decoder.eval()
    total, scored = 0.0, 0  # scored: targets ids[1 : 1 + scored] are done
    with torch.no_grad():
        for i in range(0, len(starts), 16):
            group = starts[i : i + 16]
            rows = torch.stack([ids[s : s + sequence + 1] for s in group])  # [B, sequence + 1]
            rows = rows.to(decoder.embedding.weight.device)
            logits = decoder(rows[:, :-1]).transpose(1, 2)  # [B, vocab, sequence]
            loss = torch.nn.functional.cross_entropy(logits, rows[:, 1:], reduction="none")
            for start, row in zip(group, loss.double().cpu(), strict=True):
                total += float(row[scored - start :].sum())
                scored = start + sequence
    decoder.train(training)
    return total


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m edgeformer.nn.evaluate",
        description="Bits per character of a checkpoint on a text that it was not trained on.",
    )
    parser.add_argument("checkpoint", type=Path, help="checkpoint folder with a tokenizer.json")
    parser.add_argument("text", type=Path, help="UTF-8 text file")
    parser.add_argument("--stride", type=int, help="windows begin so far apart (default: half)")
    options = parser.parse_args(arguments)
    try:
        print(_report(options.checkpoint, options.text, options.stride))
    except EdgeformerError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def _report(folder: Path, text_file: Path, stride: int | None) -> str:
    import torch

    from edgeformer.nn.checkpoint import TOKENIZER_FILE, load_checkpoint
    from edgeformer.nn.data import read_text
    from edgeformer.text import load_tokenizer

    decoder = load_checkpoint(folder)
    sequence = decoder.config.max_positions
    stride = max(1, sequence // 2) if stride is None else stride
    if not 1 <= stride <= sequence:
        raise EdgeformerError(
            f"stride is {stride}; it must be from 1 to {sequence}, the model's max_positions"
        )
    text = read_text(text_file)
    tokenizer = load_tokenizer(str(folder / TOKENIZER_FILE))
    ids = torch.tensor(tokenizer.encode(text))
    bits = bits_per_character(decoder, tokenizer, ids, sequence, stride)
    return (
        f"{bits:.4f} bits per character: {len(text)} characters, {len(ids)} tokens, "
        f"windows of {sequence} tokens that begin {stride} apart"
    )


if __name__ == "__main__":
    sys.exit(main())
