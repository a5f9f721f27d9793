"""From a recipe or a decoder to a bundle: trace, store, check, publish."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from edgeformer.contract import STEP, Graph
from edgeformer.errors import EdgeformerError
from edgeformer.export import parity
from edgeformer.export.fp16 import InFp16, in_fp16, name_pinned
from edgeformer.export.fused_run import check_exact, check_fused, fused_logits
from edgeformer.export.gate import Gate, passed
from edgeformer.export.golden_prompt import golden_ids
from edgeformer.export.graphs import Traced
from edgeformer.export.manifest import write_manifest
from edgeformer.export.memory import give_back
from edgeformer.export.order import Order, checked_form
from edgeformer.export.panels import with_panels
from edgeformer.export.publish import check_target, published
from edgeformer.export.quality import compare, graph_logits, torch_logits
from edgeformer.export.reading import Reading, Texts, own_text, read_texts
from edgeformer.export.recipe import Recipe, Sampling
from edgeformer.export.source import Source, given_model
from edgeformer.export.stages import Stages, stages
from edgeformer.export.store import trace_all, write_graphs
from edgeformer.export.tokenizer import Written, write_words
from edgeformer.export.words import Words
from edgeformer.manifest_embedding import Embedding
from edgeformer.manifest_quality import Pin, Quality
from edgeformer.nn.decoder import Decoder
from edgeformer.nn.pins import half_copy, to_half

STAGES, AUDIT_STAGES, QUANTIZE_STAGES = 9, 1, 2
FUSED_STAGES = 6  # one graph in place of two is traced, stored and run


@dataclass(frozen=True)
class Exported:
    """What an export made."""

    path: Path
    bytes: int
    golden: parity.Golden
    text: Written | None
    quality: Quality | None
    fp16: InFp16  # of the graphs, or of engines that are built of them
    pinned: tuple[Pin, ...]  # all that stays in floats, whatever the reason
    note: str  # how it was quantized, or ""


def export_recipe(
    recipe: Recipe,
    out_dir: Path | str,
    *,
    allow_quality_loss: bool = False,
    force: bool = False,
    progress: bool = False,
) -> Exported:
    """Load the model that a recipe names and export it. Its weights are freed on the way.

    Raises CheckFailed where it loses more than the recipe's [quality] allows, unless
    `allow_quality_loss`; the manifest then says so.
    """
    check_target(Path(out_dir), force)  # before minutes of work
    given = given_model(recipe.model, recipe.license, recipe.graph.capacity, recipe.tokenizer)
    golden = recipe.golden
    form = recipe.precision, recipe.target, recipe.embedding, recipe.dialect, recipe.block
    sizes = given.capacity, recipe.graph.chunk, recipe.graph.exact_steps
    order = Order(
        name=recipe.name,
        source=given.source,
        form=checked_form(given.config, *form, *sizes),
        words=given.words,
        ends=given.ends,
        golden_prompt=golden.prompt if golden.prompt_ids is None else golden.prompt_ids,
        default_prompt=given.golden_prompt,
        sampling=recipe.sampling.over(given.sampling),
        texts=recipe.quality.texts,
        # random weights have flat distributions, whose likeliest tokens change places
        gate=recipe.quality.gate(allow_quality_loss or recipe.model.preset is not None),
    )
    return _export(order, given.load, None, Path(out_dir), force, progress)


def export_decoder(
    decoder: Decoder,
    out_dir: Path | str,
    *,
    name: str,
    capacity: int | None = None,
    chunk: int | None = None,
    exact_steps: bool = False,
    target: str = "jetson-nano",
    precision: str = "fp32",
    dialect: str | None = None,
    block: int | None = None,
    embedding: str = "graph",
    tokenizer_json: str | None = None,
    golden_prompt: str | Sequence[int] | None = None,
    sampling: Sampling | None = None,
    source: Source | None = None,
    texts: Texts | None = None,
    gate: Gate | None = None,
    force: bool = False,
    progress: bool = False,
) -> Exported:
    """Write a bundle, or raise and leave no trace. The decoder is left in evaluation mode.

    capacity: max_positions if None; chunk: 128 if None, 256 in dialect `ort` and fp32, or the
    capacity if that is less. exact_steps: as the key of a recipe. precision: one of PRECISIONS, for
    its targets; dialect: "portable" or "ort" (the default for target "cpu", where the model
    can be written in it); embedding: "graph" or "host"; block: 32 or 64 inputs, in n8 alone.
    golden_prompt: text, where there is a tokenizer, or ids; a few fixed ids if None. `texts` are
    what a reduced precision is measured on (what the model writes itself, without a tokenizer),
    `gate` is how much it may lose.
    """
    config = decoder.eval().config
    if decoder.embedding.weight.dtype != torch.float32:
        raise EdgeformerError(
            f"the decoder is {decoder.embedding.weight.dtype}; call decoder.float() before the "
            "export"
        )
    capacity = config.max_positions if capacity is None else capacity
    form = precision, target, embedding, dialect, block
    order = Order(
        name=name,
        source=source or Source(name),
        form=checked_form(config, *form, capacity, chunk, exact_steps),
        words=None if tokenizer_json is None else Words(tokenizer_json),
        ends=(),
        golden_prompt=golden_prompt,
        default_prompt=None,
        sampling=(sampling or Sampling()).over({}),
        texts=texts or Texts(),
        gate=gate or Gate(),
    )
    return _export(order, lambda: decoder, decoder, Path(out_dir), force, progress)


def _export(
    order: Order,
    load: Callable[[], Decoder],
    traced: Decoder | None,
    out_dir: Path,
    force: bool,
    progress: bool,
) -> Exported:
    """`traced`: the caller's own decoder, which stays as it is; None: what is loaded is ours."""
    form, config, precision = order.form, order.form.config, order.form.precision.name
    with published(out_dir, force) as folder, stages(_count(order), progress) as stage:
        text = write_words(folder, order.words, config.vocab_size)
        prompt = order.golden_prompt, order.default_prompt
        prompt_ids = golden_ids(*prompt, text, config.vocab_size, form.capacity)
        reading = _reading(order, text)  # before what takes long
        parameters: dict[str, torch.Tensor] = {}  # where the drafts will find their weights
        host = form.embedding == "host"
        # of two equal weights a trace keeps one, and quantizing tells them apart
        example = None if form.quantized else traced
        cache = {"fused": form.fused, "exact": form.exact}
        drafts = trace_all(config, example, precision, host, parameters, stage, **cache)
        give_back()
        stage("load the weights")
        decoder = load()
        parameters.update(decoder.state_dict())
        if form.quantized and reading is None:
            reading = own_text(decoder, form.fused)
        stage("run PyTorch")
        ref = _golden_run(order, decoder, prompt_ids)
        fp16 = _in_fp16(order, decoder, reading, ref, stage)
        pins = fp16.modules
        if pins and precision == "fp16":
            drafts = trace_all(config, traced, precision, host, parameters, stage.inside, pins)
        elif pins:
            name_pinned(drafts, decoder, pins)
        quantized = None
        if form.quantized:
            stage("quantize")
            quantized = form.precision.quantize(decoder, reading.calibration, stage.inside)
            drafts = [quantized.rewrite(draft) for draft in drafts]
        elif form.fused is not None:
            drafts = _in_panels(drafts, parameters)
        graphs, table = write_graphs(folder, drafts, decoder, precision, host, stage)
        parameters.clear()
        if precision == "fp16":
            in_half = to_half if traced is None else half_copy
            ref = parity.half_reference(ref, in_half(decoder, pins), form.capacity, form.chunk)
        if quantized is None:
            del decoder
            give_back()
        golden = _checked(order, folder, graphs, ref, table, stage)
        quality = fp16.measured
        if quantized is not None:
            quality = _measured(order, decoder, folder, graphs, table, reading, stage)
        stage("hash the files")
        pinned = fp16.pins if quantized is None else _joined(fp16.pins, quantized.pins)
        _describe(folder, order, text, graphs, table, fp16, pinned, quality, golden)
        total = sum(path.stat().st_size for path in folder.iterdir())
    note = quantized.note if form.quantized else ""
    return Exported(out_dir, total, golden, text, quality, fp16, pinned, note)


def _in_panels(drafts: Sequence[Traced], parameters: dict[str, torch.Tensor]) -> list[Traced]:
    shapes = {name: tuple(value.shape) for name, value in parameters.items()}
    return [with_panels(draft, shapes) for draft in drafts]


def _joined(*many: Sequence[Pin]) -> tuple[Pin, ...]:
    """Each module once, with all that was said of it."""
    found: dict[str, str] = {}
    for pin in itertools.chain(*many):
        found[pin.module] = f"{found[pin.module]}; {pin.why}" if pin.module in found else pin.why
    return tuple(Pin(*item) for item in found.items())


def _checked(
    order: Order,
    folder: Path,
    graphs: dict[str, Graph],
    ref: parity.Reference,
    table: Embedding | None,
    stage: Stages,
) -> parity.Golden:
    """The golden run of what was written, against PyTorch's."""
    precision = order.form.precision.name
    if STEP in graphs:
        found = check_fused(folder / graphs[STEP].file, ref, order.form.chunk, stage, precision)
        if order.form.exact:
            stage.inside("steps of several tokens against steps of one")
            check_exact(folder / graphs[STEP].file, ref, order.form.chunk)
        return found
    options = order.form.capacity, order.form.chunk, stage, precision, table
    return parity.check_graphs(folder, graphs, order.form.config, ref, *options)


def _golden_run(order: Order, decoder: Decoder, prompt_ids: Sequence[int]) -> parity.Reference:
    steps = min(parity.MOST_STEPS, order.form.capacity - len(prompt_ids))
    return parity.reference(decoder, prompt_ids, steps, order.form.capacity, order.form.chunk)


def _in_fp16(
    order: Order,
    decoder: Decoder,
    reading: Reading | None,
    ref: parity.Reference,
    stage: Stages,
) -> InFp16:
    if not order.form.audited:
        return InFp16()
    stage("audit FP16")
    golden = [*ref.prompt_ids, *ref.greedy_ids[:-1]]
    host = order.form.embedding == "host"
    return in_fp16(
        decoder, order.form.precision.name, host, reading, golden, order.gate, stage.inside
    )


def _describe(
    folder: Path,
    order: Order,
    text: Written | None,
    graphs: dict[str, Graph],
    table: Embedding | None,
    fp16: InFp16,
    pinned: tuple[Pin, ...],
    quality: Quality | None,
    golden: parity.Golden,
) -> None:
    runs = [name for name in order.form.precision.runs if not (fp16.refused and name == "fp16")]
    runs = [name for name in runs if STEP not in graphs or name == order.form.precision.name]
    write_manifest(
        folder,
        name=order.name,
        source=order.source,
        config=order.form.config,
        target=order.form.target,
        precision=order.form.precision,
        runs=runs,
        embedding=table,
        capacity=order.form.capacity,
        chunk=order.form.chunk,
        exact=order.form.exact,
        graphs=graphs,
        text=text,
        ends=order.ends if text is None else text.eos_token_ids,
        sampling=order.sampling,
        quality=quality,
        pinned=pinned,
        golden=golden,
    )


def _reading(order: Order, text: Written | None) -> Reading | None:
    """What the quality is measured on; None: on nothing but the golden run, or what the model
    writes itself."""
    quantized = order.form.quantized
    if not quantized and not order.form.audited:
        return None
    # the graph of dialect `ort` has room for its capacity and no more
    longest = order.form.fused or order.form.config.max_positions
    if text is not None:
        try:
            return read_texts(order.texts, text.tokenizer, longest, quantized)
        except EdgeformerError:
            if order.form.precision.name != "fp32" or order.texts.measured is not None:
                raise
            return None  # these graphs need none, and nobody has named one
    for path in (order.texts.measured, order.texts.calibration):
        if path is not None:
            raise EdgeformerError(
                f"the bundle has no tokenizer, so that `{path}` cannot be read; leave it out: the "
                "model is then measured on what it writes itself"
            )
    return None


def _measured(
    order: Order,
    decoder: Decoder,
    folder: Path,
    graphs: dict[str, Graph],
    table: Embedding | None,
    reading: Reading,
    stage: Stages,
) -> Quality:
    stage("measure the quality")
    total = len(reading.windows)
    if STEP in graphs:
        logits = fused_logits(folder / graphs[STEP].file)
    else:
        rows = None if table is None else parity.table_of(folder, table)
        logits = graph_logits(folder / graphs["prefill"].file, order.form.config, rows)
    found = compare(
        torch_logits(decoder),
        logits,
        reading.windows,
        lambda done: stage.inside(f"window {done} of {total}"),
    )
    return passed({order.form.precision.name: found}, reading, order.gate)


def _count(order: Order) -> int:
    """Of the stages of an export."""
    whole = STAGES if order.form.fused is None else FUSED_STAGES
    return whole + AUDIT_STAGES * order.form.audited + (QUANTIZE_STAGES * (order.form.quantized))
