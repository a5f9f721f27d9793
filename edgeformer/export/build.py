"""From a recipe or a decoder to a bundle: trace, store, check, publish."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import onnx
import torch
from tqdm import tqdm

from edgeformer.contract import Graph
from edgeformer.errors import CheckFailed, EdgeformerError
from edgeformer.export import parity
from edgeformer.export.graphs import assemble, trace
from edgeformer.export.manifest import TOKENIZER_FILE, write_manifest
from edgeformer.export.operators import check_operators
from edgeformer.export.pinned import module_of
from edgeformer.export.publish import check_target, published
from edgeformer.export.recipe import Recipe, Sampling
from edgeformer.export.source import Source, load_source
from edgeformer.export.weights import WeightsFile
from edgeformer.nn.decoder import Decoder
from edgeformer.text import Tokenizer, load_tokenizer

STAGES = 8
SHOWN_FINDINGS = 10

Stage = Callable[[str], None]


@dataclass(frozen=True)
class Exported:
    """What an export made."""

    path: Path
    bytes: int
    golden: parity.Golden
    has_tokenizer: bool


def export_recipe(
    recipe: Recipe, out_dir: Path | str, *, force: bool = False, progress: bool = False
) -> Exported:
    """Load the model that a recipe names and export it."""
    check_target(Path(out_dir), force)  # before minutes of work
    decoder, tokenizer_json, source = load_source(recipe.model, recipe.license)
    golden = recipe.golden
    return export_decoder(
        decoder,
        out_dir,
        name=recipe.name,
        capacity=recipe.graph.capacity,
        chunk=recipe.graph.chunk,
        target=recipe.target,
        tokenizer_json=tokenizer_json,
        golden_prompt=golden.prompt if golden.prompt_ids is None else golden.prompt_ids,
        sampling=recipe.sampling,
        source=source,
        force=force,
        progress=progress,
    )


def export_decoder(
    decoder: Decoder,
    out_dir: Path | str,
    *,
    name: str,
    capacity: int | None = None,
    chunk: int | None = None,
    target: str = "jetson-nano",
    tokenizer_json: str | None = None,
    golden_prompt: str | Sequence[int] | None = None,
    sampling: Sampling | None = None,
    source: Source | None = None,
    force: bool = False,
    progress: bool = False,
) -> Exported:
    """Write a bundle, or raise and leave no trace. The decoder is left in evaluation mode.

    capacity: max_positions if None; chunk: min(128, capacity). golden_prompt: text, where there is
    a tokenizer, or ids; a few fixed ids if None.
    """
    config = decoder.eval().config
    capacity = config.max_positions if capacity is None else capacity
    chunk = min(128, capacity) if chunk is None else chunk
    _check_sizes(decoder, capacity, chunk)
    with published(Path(out_dir), force) as folder, _stages(progress) as stage:
        tokenizer = _write_tokenizer(folder, tokenizer_json, config.vocab_size)
        prompt_ids = _prompt_ids(golden_prompt, tokenizer, config.vocab_size, capacity)
        _check_room(folder, decoder)
        graphs = _write_graphs(folder, decoder, stage)
        stage("run PyTorch")
        steps = min(parity.MOST_STEPS, capacity - len(prompt_ids))
        ref = parity.reference(decoder, prompt_ids, steps, capacity, chunk)
        golden = parity.check_graphs(folder, graphs, config, ref, capacity, chunk, stage)
        stage("hash the files")
        write_manifest(
            folder,
            name=name,
            source=source or Source(name),
            config=config,
            target=target,
            capacity=capacity,
            chunk=chunk,
            graphs=graphs,
            tokenizer=tokenizer,
            sampling=sampling or Sampling(),
            golden=golden,
        )
        total = sum(path.stat().st_size for path in folder.iterdir())
    return Exported(Path(out_dir), total, golden, tokenizer is not None)


@contextmanager
def _stages(progress: bool) -> Iterator[Stage]:
    """A bar on stderr that names the stage at work."""
    form = "{desc:<28}{bar:20} {n_fmt}/{total_fmt} [{elapsed}]"
    with tqdm(total=STAGES, disable=not progress, leave=False, bar_format=form) as bar:

        def stage(text: str) -> None:
            bar.set_description_str(text, refresh=False)
            bar.update()

        yield stage


def _check_sizes(decoder: Decoder, capacity: int, chunk: int) -> None:
    most = decoder.config.max_positions
    if not 2 <= capacity <= most:
        raise EdgeformerError(
            f"[graph] capacity is {capacity}; it must be at least 2 and at most the model's "
            f"max_positions, {most}"
        )
    if not 1 <= chunk <= capacity:
        raise EdgeformerError(
            f"[graph] chunk is {chunk}; it must be at least 1 and at most the capacity, {capacity}"
        )
    dtype = decoder.embedding.weight.dtype
    if dtype != torch.float32:
        raise EdgeformerError(f"the decoder is {dtype}; call decoder.float() before the export")


def _check_room(folder: Path, decoder: Decoder) -> None:
    """Weights are nearly all of a bundle; an untied table of the embedding is one of them."""
    needed = sum(p.numel() * p.element_size() for p in decoder.parameters())
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise EdgeformerError(
            f"the weights need {needed / 1e6:.1f} MB, but `{folder.parent}` has {free / 1e6:.1f} "
            "MB free; free some or choose another -o BUNDLE"
        )


def _write_graphs(folder: Path, decoder: Decoder, stage: Stage) -> dict[str, Graph]:
    graphs = {}
    with WeightsFile(folder) as weights:
        for kind in ("prefill", "decode"):
            stage(f"trace {kind}.onnx")
            traced = trace(decoder, kind)
            stage(f"store the weights of {kind}.onnx")
            model = assemble(traced, list(weights.initializers(traced.weights)))
            _check_operators(model, traced.contract.file, decoder)
            data = model.SerializeToString(deterministic=True)
            (folder / traced.contract.file).write_bytes(data)
            graphs[kind] = traced.contract
    for graph in graphs.values():
        onnx.checker.check_model(folder / graph.file)
    return graphs


def _check_operators(model: onnx.ModelProto, file: str, decoder: Decoder) -> None:
    findings = check_operators(model)
    if not findings:
        return
    lines = [f.text(lambda node: module_of(node, decoder)) for f in findings[:SHOWN_FINDINGS]]
    if len(findings) > SHOWN_FINDINGS:
        lines.append(f"and {len(findings) - SHOWN_FINDINGS} more")
    raise CheckFailed(
        f"{file} is not for TensorRT 8.2; write these modules with other operators:\n  "
        + "\n  ".join(lines)
    )


def _write_tokenizer(folder: Path, text: str | None, vocab_size: int) -> Tokenizer | None:
    if text is None:
        return None
    path = folder / TOKENIZER_FILE
    path.write_text(text, encoding="utf-8", newline="")
    tokenizer = load_tokenizer(str(path))
    if tokenizer.vocab_size > vocab_size:
        raise EdgeformerError(
            f"the tokenizer has {tokenizer.vocab_size} ids, but the model knows {vocab_size}; "
            "they do not belong together"
        )
    return tokenizer


def _prompt_ids(
    prompt: str | Sequence[int] | None, tokenizer: Tokenizer | None, vocab_size: int, capacity: int
) -> list[int]:
    if prompt is None:
        ids = [7 * i % vocab_size for i in range(1, 1 + min(8, capacity // 2))]
    elif not isinstance(prompt, str):
        ids = list(prompt)
    elif tokenizer is None:
        raise EdgeformerError(
            "[golden] prompt is text, but the model has no tokenizer.json; give prompt_ids"
        )
    else:
        ids = tokenizer.encode(prompt)
    most = min(capacity - 1, parity.MOST_PROMPT)
    if not 1 <= len(ids) <= most:
        raise EdgeformerError(
            f"the golden prompt has {len(ids)} tokens; it must have 1 to {most} "
            f"(the capacity is {capacity})"
        )
    if not 0 <= min(ids) <= max(ids) < vocab_size:
        raise EdgeformerError(
            f"the golden prompt has ids from {min(ids)} to {max(ids)}; "
            f"the vocabulary has {vocab_size}"
        )
    return ids
