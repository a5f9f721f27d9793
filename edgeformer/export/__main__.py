"""`python -m edgeformer.export RECIPE.toml -o BUNDLE`: a recipe becomes a bundle."""

from __future__ import annotations

import argparse
import dataclasses
import shlex
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from edgeformer.errors import EdgeformerError

if TYPE_CHECKING:
    from edgeformer.export.build import Exported
    from edgeformer.export.recipe import Recipe

FEW_TOKENS = 16

EXAMPLES = """\
examples:
  python -m edgeformer.export export/nano-austen.toml -o bundles/nano-austen
  python -m edgeformer.export --preset nano-start -o bundles/nano-start
  python -m edgeformer.export --model runs/mine -o bundles/mine
  python -m edgeformer.export --model HuggingFaceTB/SmolLM2-135M-Instruct -o bundles/smollm2
  python -m edgeformer.export --model model.gguf --capacity 512 -o bundles/mine

what is a checkpoint, and would it export? (reads no weights)
  python -m edgeformer.export inspect PATH_OR_HUB_ID [--json]

would TensorRT parse an ONNX file, anybody's? (lint --help tells the rest)
  python -m edgeformer.export lint FILE.onnx [--target NAME | --tensorrt VERSION] [--json]

what would 8 or 4 bits cost it? (quality --help tells the rest)
  python -m edgeformer.export quality PATH_OR_HUB_ID [--forms n8,n4] [--eval-text FILE]

Exit status: 0 done, 1 the graphs do not compute the model, 2 something to change.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if words[:1] == ["lint"]:
            return _lint(words[1:])
        if words[:1] == ["inspect"]:
            return _inspect(words[1:])
        if words[:1] == ["quality"]:
            return _quality(words[1:])
        _export(_parsed(words))
    except EdgeformerError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("\nstopped; no bundle was written", file=sys.stderr)
        return 130
    return 0


def _lint(words: Sequence[str]) -> int:
    try:
        from edgeformer.export.lint import command
    except ModuleNotFoundError as error:
        raise _missing(error) from error
    return command.main(words)


def _inspect(words: Sequence[str]) -> int:
    try:
        from edgeformer.export import inspect
    except ModuleNotFoundError as error:
        raise _missing(error) from error
    return inspect.main(words)


def _quality(words: Sequence[str]) -> int:
    try:
        from edgeformer.export import quality_command
    except ModuleNotFoundError as error:
        raise _missing(error) from error
    return quality_command.main(words)


def _missing(error: ModuleNotFoundError) -> EdgeformerError:
    """What a missing package means to the user; our own missing module is a fault of ours."""
    if (error.name or "").startswith("edgeformer"):
        raise error
    return EdgeformerError(
        f"the export needs the package {error.name}, which is not installed; run "
        '`python -m pip install "edgeformer[export]"`, or `make host-env` in the repository'
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m edgeformer.export",
        description="Trace a decoder into two ONNX graphs, check them step by step against "
        "PyTorch, and write a bundle for the device.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("recipe", nargs="?", metavar="RECIPE.toml", help="what to export")
    parser.add_argument("--preset", metavar="NAME", help="a preset with random weights (seed 0)")
    parser.add_argument(
        "--model",
        metavar="PATH_OR_HUB_ID",
        help="a checkpoint folder (Hugging Face's layout or ours), a GGUF file, or a hub id; with "
        "a recipe it stands for the recipe's own",
    )
    parser.add_argument(
        "-o", dest="bundle", required=True, metavar="BUNDLE", help="folder to write"
    )
    parser.add_argument(
        "--capacity", type=int, metavar="N", help="rows of the cache: prompt and answer together"
    )
    parser.add_argument("--chunk", type=int, metavar="N", help="most tokens of one prefill step")
    parser.add_argument(
        "--precision",
        choices=("fp32", "fp16"),
        help="of the graphs (default fp32, from which TensorRT up to 10 builds FP16 engines too); "
        "fp16: half the bundle, for TensorRT 10 and newer",
    )
    parser.add_argument(
        "--embedding",
        choices=("graph", "host"),
        help="host: rows of the embedding are looked up outside the engines, which saves a table",
    )
    parser.add_argument(
        "--no-tokenizer",
        dest="tokenizer",
        action="store_const",
        const=False,
        help="the bundle takes and gives token ids only, whatever the checkpoint has",
    )
    parser.add_argument("--force", action="store_true", help="replace the bundle if it exists")
    return parser


def _parsed(words: Sequence[str]) -> argparse.Namespace:
    parser = _parser()
    args = parser.parse_args(words)
    if args.recipe is None and args.preset is None and args.model is None:
        parser.error("say what to export: RECIPE.toml, --model or --preset")
    if args.preset is not None and (args.recipe or args.model) is not None:
        parser.error("--preset stands alone, without a recipe or --model")
    return args


def _export(args: argparse.Namespace) -> None:
    try:
        from edgeformer.export import recipe
        from edgeformer.export.build import export_recipe
        from edgeformer.nn.sources import is_hub_id
    except ModuleNotFoundError as error:
        raise _missing(error) from error
    if args.recipe:
        wanted = recipe.read_recipe(args.recipe)
        if args.model is not None:
            wanted = dataclasses.replace(wanted, model=recipe.ModelSource(source=args.model))
    elif args.preset:
        wanted = recipe.preset_recipe(args.preset)
    else:
        wanted = recipe.source_recipe(args.model)
    wanted = _resized(wanted, args)
    if wanted.model.source is not None and is_hub_id(wanted.model.source):
        # a recipe can hold it, so that nobody has typed it
        named = f"{args.recipe} names" if args.recipe and args.model is None else "--model is"
        print(f"{named} `{wanted.model.source}`: from the hub or its cache here", file=sys.stderr)
    exported = export_recipe(wanted, args.bundle, force=args.force, progress=sys.stderr.isatty())
    _summarize(wanted, args.bundle, exported)


def _resized(wanted: Recipe, args: argparse.Namespace) -> Recipe:
    asked = {name: getattr(args, name) for name in ("capacity", "chunk")}
    asked = {name: value for name, value in asked.items() if value is not None}
    wanted = dataclasses.replace(wanted, graph=dataclasses.replace(wanted.graph, **asked))
    asked = {name: getattr(args, name) for name in ("precision", "embedding", "tokenizer")}
    asked = {name: value for name, value in asked.items() if value is not None}
    return dataclasses.replace(wanted, **asked)


def _summarize(recipe: Recipe, bundle: str, exported: Exported) -> None:
    golden = exported.golden
    lines = [
        f"wrote {bundle}: {exported.bytes / 1e6:.2f} MB; {len(golden.greedy_ids)} greedy steps, "
        f"{golden.distinct} distinct tokens, largest logit error {golden.largest_logit_error:g}"
    ]
    if recipe.precision != "fp32":
        lines.append(
            f"against PyTorch in fp32: KL at most {golden.largest_kl:.2g} nats a step, the same "
            f"likeliest token in {golden.top1:.1%} of the steps"
        )
    if recipe.precision == "fp16" and recipe.target == "jetson-nano":
        lines.append(
            "note: TensorRT 8.2 builds FP16 engines from fp32 graphs; it parses fp16 graphs, but "
            "builds no engine that keeps their types (10 and newer do)"
        )
    if recipe.model.preset is not None:
        lines.append("the weights are RANDOM: this bundle tries out a device, it writes no text")
    elif exported.text is None and recipe.tokenizer:
        lines.append("note: the checkpoint has no tokenizer: the bundle takes and gives token ids")
    if golden.distinct < min(FEW_TOKENS, len(golden.greedy_ids) // 2):
        lines.append(
            f"warning: {golden.distinct} distinct tokens in the golden run test little; choose "
            "another [golden] prompt"
        )
    if exported.text is not None:
        lines += [f"note: {note}" for note in exported.text.notes]
    if exported.text is not None and exported.text.chat_templates:
        prompt = "--chat 'Who are you?'"
    elif exported.text is not None:
        prompt = shlex.quote(recipe.golden.prompt or "Once upon a time")
    else:
        prompt = f"--ids '{' '.join(map(str, golden.prompt_ids))}'"
    lines.append(f"next: python -m edgeformer generate {shlex.quote(bundle)} {prompt}")
    print("\n".join(lines), file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
