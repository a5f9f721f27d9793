"""What a recipe's model will need on a board: its real graphs, laid out without its weights."""

import dataclasses
import functools
import json
from pathlib import Path
from tempfile import TemporaryDirectory

import onnx
import torch
from onnx import TensorProto, numpy_helper

from edgeformer import targets
from edgeformer.bundle import Bundle
from edgeformer.engines.needs import LAYOUTS, Case
from edgeformer.engines.plan import make_plan
from edgeformer.export.graphs import assemble, skeleton, trace
from edgeformer.export.recipe import read_recipe
from edgeformer.export.weights import FILE, INLINE
from edgeformer.nn.decoder import Decoder
from edgeformer.nn.families import config_of, find_family
from tests import bundles

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "export"
MIB = 1 << 20
# config.json of each, as its authors published it, and the number of its parameters
PUBLISHED = json.loads((ROOT / "tests/nn/families/published.json").read_text("utf-8"))
RECIPES = {  # file -> model in the table of published configs
    "smollm2-135m-instruct.toml": "SmolLM2-135M-Instruct",
    "smollm2-360m-instruct.toml": "SmolLM2-360M-Instruct",
    "qwen2.5-0.5b-instruct.toml": "Qwen2.5-0.5B-Instruct",
    "qwen3-0.6b.toml": "Qwen3-0.6B",
    "tinyllama-1.1b-chat.toml": "TinyLlama-1.1B-Chat",
    "gpt2.toml": "gpt2",
    "pythia-70m.toml": "pythia-70m",
    "pythia-160m.toml": "pythia-160m",
    "gemma-3-270m-it.toml": "gemma-3-270m-it",
}


@functools.cache
def plans(file):
    """Plans of a recipe on a 4 GB Nano without a desktop: (FP16 engines, onnxruntime FP32)."""
    recipe, values = read_recipe(FOLDER / file), PUBLISHED[RECIPES[file]]["config"]
    config = config_of(find_family(values["model_type"]), values)
    capacity, chunk = recipe.graph.capacity, recipe.graph.chunk
    config = dataclasses.replace(config, max_positions=capacity)
    with TemporaryDirectory() as folder:
        bundle = _weightless(Path(folder), config)
        engines = Case("split", "fp16", capacity, chunk)
        processor = Case("onnxruntime", "fp32", capacity, chunk)
        return (
            make_plan(bundle, engines, available(), LAYOUTS),
            make_plan(bundle, processor, available(), ("onnxruntime",)),
        )


def available():
    board = targets.TARGETS["jetson-nano"].boards["4gb"]
    return int(board.memory.value - board.used_headless.value) * MIB


def claims(file):
    """The lines that the recipe has to say about its fit."""
    engines, processor = plans(file)
    free, needs, cpu = available(), engines.needs, processor.needs
    graph = read_recipe(FOLDER / file).graph
    lines = [
        f"# PREDICTED for a 4 GB Jetson Nano without a desktop ({free / MIB:.0f} MiB free), with",
        f"# capacity {graph.capacity} and chunk {graph.chunk}; nobody has run it on a board:",
        f"# - FP16 engines, {engines.case.layout}: running {_fits(needs.largest, free)}",
        f"# - building them there, from FP32: {_fits(needs.building, free)}",
        f"# - onnxruntime, FP32: {_fits(cpu.largest, free)}",
    ]
    if engines.change is not None:
        what = engines.change.what.partition(",")[0]
        size = _fits(engines.change.needs.largest, free)
        lines.insert(3, f"# - the same with {what}: running {size}")
    return lines


def row(file):
    """The recipe's line in the table of export/README.md."""
    engines, processor = plans(file)
    parameters = PUBLISHED[RECIPES[file]]["parameters"]
    graph = read_recipe(FOLDER / file).graph
    sizes = [engines.needs.largest, engines.needs.building, processor.needs.largest]
    cells = [
        f"`{file}`",
        f"{parameters / 1e6:.0f}M, {4 * parameters / 1e6:.0f} MB",
        f"{graph.capacity}, {graph.chunk}",
        *(f"{size / MIB:.0f}, {'yes' if size <= available() else '**no**'}" for size in sizes),
    ]
    return f"| {' | '.join(cells)} |"


def _fits(size, free):
    """All of `running` is meant with what loading takes for a moment."""
    return f"{size / MIB:.0f} MiB: {'fits' if size <= free else 'DOES NOT FIT'}"


def _weightless(folder, config):
    """A bundle whose graphs point at a weights.bin that is not there: sizes do not need it."""
    decoder, graphs, places = skeleton(config), {}, {}
    for kind in ("prefill", "decode"):
        traced = trace(decoder, kind, _tensors(config))
        tensors = [_tensor(name, weight, places) for name, weight in traced.weights.items()]
        onnx.save(assemble(traced, tensors), folder / traced.contract.file)
        graphs[kind] = traced.contract
    manifest = bundles.opened(bundles.ROPE, graphs=graphs, model=config.to_json()).manifest
    return Bundle(str(folder), manifest)


def _tensors(config):
    """Every parameter in its full shape, each one number seen from every place."""
    with torch.device("meta"):
        shapes = {name: t.shape for name, t in Decoder(config).state_dict().items()}
    return {name: torch.ones(()).expand(shape) for name, shape in shapes.items()}


def _tensor(value, weight, places):
    array = weight.array()
    if array.nbytes < INLINE:
        return numpy_helper.from_array(array, value)
    key = weight.name or array.tobytes()  # as the file does: equal content is stored once
    tensor = TensorProto(name=value, dims=array.shape)
    tensor.data_type = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
    tensor.data_location = TensorProto.EXTERNAL
    offset = places.setdefault(key, len(places) * 4096)
    for name, entry in {"location": FILE, "offset": offset, "length": array.nbytes}.items():
        tensor.external_data.add(key=name, value=str(entry))
    return tensor
