"""`python -m edgeformer.export RECIPE.toml -o BUNDLE`: a recipe becomes a bundle."""

from __future__ import annotations

import argparse
import dataclasses
import shlex
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from edgeformer.cli.stdout import ends_well
from edgeformer.errors import EdgeformerError
from edgeformer.export import options

if TYPE_CHECKING:
    from edgeformer.export.build import Exported
    from edgeformer.export.recipe import Recipe

FEW_TOKENS = 16


@ends_well
def main(arguments: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if words[:1] == ["lint"]:
            return _lint(words[1:])
        if words[:1] == ["inspect"]:
            return _inspect(words[1:])
        if words[:1] == ["quality"]:
            return _quality(words[1:])
        if words[:1] == ["precisions"]:
            return _precisions(words[1:])
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


def _precisions(words: Sequence[str]) -> int:
    try:
        from edgeformer.export import precision_table
    except ModuleNotFoundError as error:
        raise _missing(error) from error
    return precision_table.main(words)


def _missing(error: ModuleNotFoundError) -> EdgeformerError:
    """What a missing package means to the user; our own missing module is a fault of ours."""
    if (error.name or "").startswith("edgeformer"):
        raise error
    return EdgeformerError(
        f"the export needs the package {error.name}, which is not installed; run "
        '`python -m pip install "edgeformer[export]"`, or `make host-env` in the repository'
    )


def _parsed(words: Sequence[str]) -> argparse.Namespace:
    parser = options.parser()
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
    if args.eval_text and (wanted.target, wanted.precision) == ("cpu", "fp32"):
        raise EdgeformerError(
            "--eval-text is about a reduced precision, and fp32 for target cpu is none; leave it "
            "out, or say --precision"
        )
    if args.calibration_text and wanted.precision in ("fp32", "fp16"):
        raise EdgeformerError(
            f"--calibration-text is about quantized precisions, and {wanted.precision} is none; "
            "leave it out, or say --precision"
        )
    if wanted.model.source is not None and is_hub_id(wanted.model.source):
        # a recipe can hold it, so that nobody has typed it
        named = f"{args.recipe} names" if args.recipe and args.model is None else "--model is"
        print(f"{named} `{wanted.model.source}`: from the hub or its cache here", file=sys.stderr)
    exported = export_recipe(
        wanted,
        args.bundle,
        allow_quality_loss=args.allow_quality_loss,
        force=args.force,
        progress=sys.stderr.isatty(),
    )
    _summarize(wanted, args.bundle, exported)


def _resized(wanted: Recipe, args: argparse.Namespace) -> Recipe:
    asked = {name: getattr(args, name) for name in ("capacity", "chunk", "exact_steps")}
    asked = {name: value for name, value in asked.items() if value is not None}
    wanted = dataclasses.replace(wanted, graph=dataclasses.replace(wanted.graph, **asked))
    asked = {"text": args.eval_text, "calibration": args.calibration_text}
    asked = {name: value for name, value in asked.items() if value is not None}
    wanted = dataclasses.replace(wanted, quality=dataclasses.replace(wanted.quality, **asked))
    names = ("target", "precision", "dialect", "block", "embedding", "tokenizer")
    asked = {name: getattr(args, name) for name in names}
    asked = {name: value for name, value in asked.items() if value is not None}
    return dataclasses.replace(wanted, **asked)


def _summarize(recipe: Recipe, bundle: str, exported: Exported) -> None:
    from edgeformer.export import gate

    golden = exported.golden
    lines = [
        f"wrote {bundle}: {exported.bytes / 1e6:.2f} MB; {len(golden.greedy_ids)} greedy steps, "
        f"{golden.distinct} distinct tokens, largest logit error {golden.largest_logit_error:g}"
    ]
    if exported.quality is not None:
        lines += gate.lines(exported.quality)
    elif recipe.precision != "fp32":
        lines.append(
            f"against PyTorch in fp32: KL at most {golden.largest_kl:.2g} nats a step, the same "
            f"likeliest token in {golden.top1:.1%} of the steps"
        )
    if exported.note:
        lines.append(f"quantized: {exported.note}")
    lines += [f"in floats: {pin.module}: {pin.why}" for pin in exported.pinned]
    if exported.fp16.refused:
        lines.append(
            f"note: FP16 engines of it are refused ({exported.fp16.refused}); build it with "
            "--precision fp32"
        )
    elif exported.quality is None and recipe.target != "cpu" and recipe.precision == "fp32":
        why = "for want of one that the model reads: give --eval-text FILE"
        why = "the bundle reads none" if exported.text is None else why
        lines.append(f"note: FP16 was tried on the golden run alone and on no text, {why}")
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
