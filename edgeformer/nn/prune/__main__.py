"""Make a model smaller: `python -m edgeformer.nn.prune MODEL --text TEXT -o FOLDER ...`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from edgeformer.nn.exit_status import exit_status

EPILOG = """\
FOLDER then holds an ordinary, smaller checkpoint and prune.json (what was done, at which loss);
`python -m edgeformer.export --model FOLDER -o BUNDLE` exports it. Ctrl-C during training saves
and exits with 130; the same command with --resume goes on.
"""


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python -m edgeformer.nn.prune",
        description="Take whole feed-forward neurons, KV groups (a key/value head with its query "
        "heads) and layers out of a model, let what stays make up for them, and train it again.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        argument_default=argparse.SUPPRESS,  # --resume tells what was typed from what was not
        allow_abbrev=False,
    )
    add = made.add_argument
    add("model", metavar="MODEL", help="checkpoint folder, GGUF file or hub id")
    add("-o", "--output", type=Path, required=True, metavar="FOLDER", help="the pruned checkpoint")
    add(
        "--text",
        type=Path,
        required=True,
        metavar="FILE",
        help="UTF-8 text that says what counts, and that is trained on; like what the model will "
        "read",
    )
    _add_budget(made)
    _add_measures(made)
    _add_training(made)
    again = made.add_mutually_exclusive_group()
    again.add_argument("--resume", action="store_true", help="go on with a run that stopped")
    again.add_argument("--force", action="store_true", help="replace the checkpoint in FOLDER")
    return made


def _add_budget(made: argparse.ArgumentParser) -> None:
    group = made.add_argument_group(
        "how much goes", "one of these; for a budget the kinds compete, by what each one loses"
    )
    one = group.add_mutually_exclusive_group()
    one.add_argument(
        "--remove",
        metavar="KIND=N,...",
        help="ff=, kv=, layers=: a count, or a share below 1, as in ff=0.25,kv=1,layers=2",
    )
    one.add_argument("--keep", type=float, metavar="SHARE", help="of the parameters")
    one.add_argument("--parameters", type=int, metavar="N", help="at most so many")
    one.add_argument("--megabytes", type=float, metavar="N", help="of weights, as --weights stores")
    one.add_argument("--flops", type=float, metavar="N", help="a token, predicted by formula")
    one.add_argument(
        "--bytes-per-token", type=float, metavar="N", help="read from memory, predicted by formula"
    )
    add = group.add_argument
    add("--capacity", type=int, metavar="N", help="rows of cache in those two (default: all)")
    add("--multiple", type=int, metavar="N", help="that d_ff is kept to (default: 32)")
    add("--calibration", type=int, metavar="N", help="tokens of the text (default: 16384)")


def _add_measures(made: argparse.ArgumentParser) -> None:
    group = made.add_argument_group("what may be lost", "measured against the unpruned model")
    held_out = group.add_mutually_exclusive_group()
    held_out.add_argument(
        "--eval-text",
        dest="held_out_file",
        type=Path,
        metavar="FILE",
        help="UTF-8 text, not trained on",
    )
    held_out.add_argument(
        "--held-out", type=float, metavar="SHARE", help="or the end of the text (default: 0.05)"
    )
    add = group.add_argument
    add("--eval-tokens", type=int, metavar="N", help="measured at most (default: 4096)")
    add("--max-loss", type=float, metavar="SHARE", help="of perplexity (default: 0.1)")
    add("--allow-quality-loss", action="store_true", help="write it anyway; prune.json says so")
    add("--weights", choices=["fp32", "fp16"], help="as stored (default: fp32)")


def _add_training(made: argparse.ArgumentParser) -> None:
    group = made.add_argument_group("recovery", "as in `python -m edgeformer.nn.train`")
    add = group.add_argument
    add("--steps", type=int, metavar="N", help="(default: 0: no training)")
    add(
        "--distill",
        type=float,
        metavar="SHARE",
        help="of the loss: KL divergence from the unpruned model (default: 1; 0: only the text)",
    )
    add("--batch-size", type=int, metavar="N", help="windows a step (default: 8)")
    add("--sequence", type=int, metavar="N", help="tokens a window (default: 256, or all)")
    add("--lr", type=float, metavar="X", help="peak learning rate (default: 0.0003)")
    add("--warmup", type=int, metavar="N", help="steps to the peak (default: a tenth, up to 100)")
    add("--weight-decay", type=float, metavar="X", help="of matrices (default: 0.1)")
    add("--seed", type=int, metavar="N", help="(default: 0)")
    add("--device", choices=["auto", "cpu", "cuda"], help="of the training (default: auto)")
    add("--threads", type=int, metavar="N", help="of the CPU (default: PyTorch's choice)")
    add("--precision", choices=["fp32", "bf16"], help="of the matrix products (default: fp32)")
    add("--eval-every", type=int, metavar="N", help="steps (default: 200; 0: only at the end)")
    add("--checkpoint-every", type=int, metavar="N", help="steps (default: 200; 0: never)")
    add("--stop-after", type=int, metavar="N", help="save after this step and exit with 0")


def main(arguments: list[str] | None = None) -> int:
    typed = vars(parser().parse_args(arguments))

    def run() -> int:
        from edgeformer.nn.prune.command import prune  # torch: not for --help

        return prune(typed)

    return exit_status(run)


if __name__ == "__main__":
    sys.exit(main())
