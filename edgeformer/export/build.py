"""From a recipe or a decoder to a bundle: trace, store, check, publish."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from tqdm import tqdm

from edgeformer.errors import EdgeformerError
from edgeformer.export import parity
from edgeformer.export.golden_prompt import golden_ids
from edgeformer.export.manifest import write_manifest
from edgeformer.export.memory import give_back
from edgeformer.export.publish import check_target, published
from edgeformer.export.recipe import Recipe, Sampling
from edgeformer.export.source import Source, check_capacity, given_model
from edgeformer.export.store import Stage, in_precision, trace_both, write_graphs
from edgeformer.export.tokenizer import Written, write_words
from edgeformer.export.words import Words
from edgeformer.nn.config import ModelConfig
from edgeformer.nn.decoder import Decoder

STAGES = 9


@dataclass(frozen=True)
class Exported:
    """What an export made."""

    path: Path
    bytes: int
    golden: parity.Golden
    text: Written | None


def export_recipe(
    recipe: Recipe, out_dir: Path | str, *, force: bool = False, progress: bool = False
) -> Exported:
    """Load the model that a recipe names and export it. Its weights are freed on the way."""
    check_target(Path(out_dir), force)  # before minutes of work
    given = given_model(recipe.model, recipe.license, recipe.graph.capacity, recipe.tokenizer)
    golden = recipe.golden
    return _export(
        given.load,
        None,
        given.config,
        Path(out_dir),
        name=recipe.name,
        capacity=given.capacity,
        chunk=recipe.graph.chunk,
        target=recipe.target,
        precision=recipe.precision,
        embedding=recipe.embedding,
        words=given.words,
        ends=given.ends,
        golden_prompt=golden.prompt if golden.prompt_ids is None else golden.prompt_ids,
        default_prompt=given.golden_prompt,
        sampling=recipe.sampling,
        source=given.source,
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
    precision: str = "fp32",
    embedding: str = "graph",
    tokenizer_json: str | None = None,
    golden_prompt: str | Sequence[int] | None = None,
    sampling: Sampling | None = None,
    source: Source | None = None,
    force: bool = False,
    progress: bool = False,
) -> Exported:
    """Write a bundle, or raise and leave no trace. The decoder is left in evaluation mode.

    capacity: max_positions if None; chunk: min(128, capacity). precision: "fp32" or "fp16";
    embedding: "graph" or "host". golden_prompt: text, where there is a tokenizer, or ids; a few
    fixed ids if None.
    """
    config = decoder.eval().config
    if decoder.embedding.weight.dtype != torch.float32:
        raise EdgeformerError(
            f"the decoder is {decoder.embedding.weight.dtype}; call decoder.float() before the "
            "export"
        )
    return _export(
        lambda: decoder,
        decoder,
        config,
        Path(out_dir),
        name=name,
        capacity=config.max_positions if capacity is None else capacity,
        chunk=chunk,
        target=target,
        precision=precision,
        embedding=embedding,
        words=None if tokenizer_json is None else Words(tokenizer_json),
        ends=(),
        golden_prompt=golden_prompt,
        default_prompt=None,
        sampling=sampling or Sampling(),
        source=source or Source(name),
        force=force,
        progress=progress,
    )


def _export(
    load: Callable[[], Decoder],
    traced: Decoder | None,
    config: ModelConfig,
    out_dir: Path,
    *,
    name: str,
    capacity: int,
    chunk: int | None,
    target: str,
    precision: str,
    embedding: str,
    words: Words | None,
    ends: tuple[int, ...],
    golden_prompt: str | Sequence[int] | None,
    default_prompt: str | None,
    sampling: Sampling,
    source: Source,
    force: bool,
    progress: bool,
) -> Exported:
    chunk = _checked_chunk(config, capacity, chunk)
    with published(out_dir, force) as folder, _stages(progress) as stage:
        text = write_words(folder, words, config.vocab_size)
        prompt_ids = golden_ids(golden_prompt, default_prompt, text, config.vocab_size, capacity)
        parameters: dict[str, torch.Tensor] = {}
        host = embedding == "host"
        drafts = trace_both(config, traced, precision, host, parameters, stage)
        give_back()
        stage("load the weights")
        decoder = load()
        parameters.update(decoder.state_dict())
        graphs, table = write_graphs(folder, drafts, decoder, precision, host, stage)
        parameters.clear()
        stage("run PyTorch")
        ref = _run_torch(decoder, prompt_ids, capacity, chunk, precision, traced is None)
        del decoder
        give_back()
        golden = parity.check_graphs(
            folder, graphs, config, ref, capacity, chunk, stage, precision, table
        )
        stage("hash the files")
        write_manifest(
            folder,
            name=name,
            source=source,
            config=config,
            target=target,
            precision=precision,
            embedding=table,
            capacity=capacity,
            chunk=chunk,
            graphs=graphs,
            text=text,
            ends=ends if text is None else text.eos_token_ids,
            sampling=sampling,
            golden=golden,
        )
        total = sum(path.stat().st_size for path in folder.iterdir())
    return Exported(out_dir, total, golden, text)


def _run_torch(
    decoder: Decoder,
    prompt_ids: Sequence[int],
    capacity: int,
    chunk: int,
    precision: str,
    ours: bool,
) -> parity.Reference:
    """The golden text in float32, then in the graphs' precision. `ours`: it may be changed."""
    steps = min(parity.MOST_STEPS, capacity - len(prompt_ids))
    ref = parity.reference(decoder, prompt_ids, steps, capacity, chunk)
    if precision == "fp32":
        return ref
    typed = decoder.half() if ours else in_precision(decoder, precision)
    return parity.half_reference(ref, typed, capacity, chunk)


@contextmanager
def _stages(progress: bool) -> Iterator[Stage]:
    """A bar on stderr that names the stage at work."""
    form = "{desc:<28}{bar:20} {n_fmt}/{total_fmt} [{elapsed}]"
    with tqdm(total=STAGES, disable=not progress, leave=False, bar_format=form) as bar:

        def stage(text: str) -> None:
            bar.set_description_str(text, refresh=False)
            bar.update()

        yield stage


def _checked_chunk(config: ModelConfig, capacity: int, asked: int | None) -> int:
    check_capacity(config, capacity)
    chunk = min(128, capacity) if asked is None else asked
    if not 1 <= chunk <= capacity:
        raise EdgeformerError(
            f"[graph] chunk is {chunk}; it must be at least 1 and at most the capacity, {capacity}"
        )
    return chunk
