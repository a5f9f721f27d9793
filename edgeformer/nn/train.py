"""Train a language model on a text file: `python -m edgeformer.nn.train TEXT -o FOLDER`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from edgeformer.nn.exit_status import exit_status

EPILOG = """\
FOLDER then holds model.safetensors, config.json, tokenizer.json and train.json (what was done).
Ctrl-C saves and exits with 130; the same command with --resume goes on, and ends in the same
weights, bit for bit, as a run that was never interrupted (on the same machine, CPU).
"""


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python -m edgeformer.nn.train",
        description="Train a language model on a text file.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        argument_default=argparse.SUPPRESS,  # --resume tells what was typed from what was not
        allow_abbrev=False,
    )
    add = made.add_argument
    add("text", type=Path, metavar="TEXT", help="UTF-8 text file to learn")
    add("-o", "--output", type=Path, required=True, metavar="FOLDER", help="checkpoint folder")
    model = made.add_mutually_exclusive_group()
    model.add_argument("--preset", metavar="NAME", help="model size (default: nano-start)")
    model.add_argument("--config", type=Path, metavar="FILE", help="model config, JSON")
    add("--dropout", type=float, metavar="P", help="(default: the model config's)")
    add(
        "--tokenizer",
        choices=["byte-bpe", "char"],
        help="(default: char for a model config with at most 256 ids, else byte-bpe)",
    )
    add("--vocab-size", type=int, metavar="N", help="byte-bpe only (default: the model config's)")
    add("--steps", type=int, metavar="N", help="(default: 1000)")
    add("--batch-size", type=int, metavar="N", help="windows a step (default: 16)")
    add("--sequence", type=int, metavar="N", help="tokens a window (default: max_positions)")
    add("--lr", type=float, metavar="X", help="peak learning rate (default: 0.001)")
    add("--warmup", type=int, metavar="N", help="steps to the peak (default: a tenth, up to 100)")
    add("--weight-decay", type=float, metavar="X", help="of matrices (default: 0.1)")
    add("--seed", type=int, metavar="N", help="(default: 0)")
    add("--device", choices=["auto", "cpu", "cuda"], help="(default: auto)")
    add("--threads", type=int, metavar="N", help="of the CPU (default: PyTorch's choice)")
    add("--precision", choices=["fp32", "bf16"], help="of the matrix products (default: fp32)")
    held_out = made.add_mutually_exclusive_group()
    held_out.add_argument(
        "--held-out", type=float, metavar="SHARE", help="end of TEXT not trained on (default: 0.05)"
    )
    held_out.add_argument("--held-out-file", type=Path, metavar="FILE", help="or another text")
    add("--weights", choices=["fp32", "fp16"], help="as stored (default: fp32)")
    add("--eval-every", type=int, metavar="N", help="steps (default: 200; 0: only at the end)")
    add("--checkpoint-every", type=int, metavar="N", help="steps (default: 200; 0: never)")
    add("--stop-after", type=int, metavar="N", help="save after this step and exit with 0")
    again = made.add_mutually_exclusive_group()
    again.add_argument("--resume", action="store_true", help="go on with an interrupted run")
    again.add_argument("--force", action="store_true", help="replace the checkpoint in FOLDER")
    return made


def main(arguments: list[str] | None = None) -> int:
    typed = vars(parser().parse_args(arguments))

    def run() -> int:
        from edgeformer.nn.training import train  # torch: not for --help

        return train(typed)

    return exit_status(run)


if __name__ == "__main__":
    sys.exit(main())
