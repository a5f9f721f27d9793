"""FP16-typed graphs: what stays FP32, how near they are, and what half precision cannot hold."""

import dataclasses
import os

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto
from torch import nn

from edgeformer.bundle import read_manifest
from edgeformer.errors import CheckFailed
from edgeformer.export import export_decoder
from edgeformer.export.build import export_recipe
from edgeformer.export.graphs import assemble, skeleton, trace
from edgeformer.export.measure import kl, measured
from edgeformer.export.operators import check_operators
from edgeformer.export.pinned import PREFIX
from edgeformer.export.recipe import GoldenPrompt, GraphSize, ModelSource, Recipe
from edgeformer.export.weights import WeightsFile
from edgeformer.nn.checkpoint import save_checkpoint
from edgeformer.nn.layers import Norm
from edgeformer.nn.pins import STREAM, half_copy
from tests.export.graph_rows import CAPACITY, CHUNK, callable_graph
from tests.nn.choices import CHOICES, PLAIN, PROMPT, choice_decoder, random_decoder
from tests.nn.rows import Rows

# with the cap, scores of any size give the same weights whatever their rounding
CAPPED = dataclasses.replace(PLAIN, attention_soft_cap=3.0)
WIDE = (TensorProto.FLOAT, TensorProto.INT32)
OPTIONS = {"name": "b", "capacity": 40, "chunk": 3, "golden_prompt": PROMPT, "precision": "fp16"}
SOME = ("alibi-gqa", "like-gemma", "like-gpt2")


@pytest.fixture(scope="module")
def half(tmp_path_factory):
    """Half-precision bundles by name of their choice, each exported once."""
    folder, made = tmp_path_factory.mktemp("half"), {}

    def get(name):
        if name not in made:
            options = {**OPTIONS, "capacity": CAPACITY, "chunk": CHUNK}
            made[name] = export_decoder(choice_decoder(name), folder / name, **options)
        return made[name]

    return get


@pytest.mark.parametrize(
    "name", [n if n in SOME else pytest.param(n, marks=pytest.mark.slow) for n in CHOICES]
)
@pytest.mark.parametrize("kind", ("prefill", "decode"))
def test_pinned_nodes_are_fp32_and_all_others_fp16_and_tensorrt_8_2_parses_them(
    name, kind, tmp_path
):
    decoder = skeleton(CHOICES[name], "fp16")
    traced = trace(decoder, kind, choice_decoder(name).state_dict())
    with WeightsFile(tmp_path) as weights:
        model = assemble(traced, list(weights.initializers(traced.weights)))
    assert check_operators(model) == []
    known = onnx.shape_inference.infer_shapes(model, strict_mode=True).graph
    types = {v.name: v.type.tensor_type.elem_type for v in (*known.value_info, *known.output)}
    found = {True: 0, False: 0}
    for node in model.graph.node:
        if node.op_type != "Shape":
            pinned = node.name.startswith(PREFIX)
            assert pinned == (types[node.output[0]] in WIDE), node.name
            found[pinned] += 1
    assert min(found.values()) > 20
    softmax = [node for node in model.graph.node if node.op_type == "Softmax"]
    assert {types[node.output[0]] for node in softmax} == {TensorProto.FLOAT}
    inputs = {v.name: v.type.tensor_type.elem_type for v in model.graph.input}
    assert inputs["past.0.key"] == types["new.0.value"] == TensorProto.FLOAT16
    assert inputs["past_positions"] == TensorProto.INT32
    assert types["logits"] == TensorProto.FLOAT


@pytest.mark.parametrize("name", SOME)
def test_a_half_precision_bundle_is_near_pytorch_in_float32(name, half, bundles):
    made = half(name)
    manifest = read_manifest(str(made.path / "manifest.json"))
    golden = manifest.golden
    assert manifest.precision == "fp16"
    assert {s.dtype for s in manifest.graphs["prefill"].inputs} == {"int32", "float16"}
    assert golden.greedy_ids == bundles[name].golden.greedy_ids, "those of fp32"
    assert 1e-4 < golden.largest_logit_error < 3e-2
    assert 0 < golden.largest_kl < 1e-3
    assert golden.top1 > 0.95
    sizes = [(p / "weights.bin").stat().st_size for p in (made.path, bundles[name].path)]
    assert sizes[0] < 0.9 * sizes[1], "half, but for padding to pages"


@pytest.mark.parametrize("name", SOME)
def test_shuffled_rows_give_in_fp16_what_the_module_gives(name, half):
    """The graph against PyTorch's half precision, rows anywhere among garbage."""
    decoder = choice_decoder(name).half()
    found, wanted = Rows(decoder, 60), Rows(decoder, 60)
    found.many, found.one = (
        callable_graph(half(name).path / f"{k}.onnx") for k in ("prefill", "decode")
    )
    ids = [(37 * i + 11) % 96 for i in range(50)]
    with torch.inference_mode():
        for start in range(0, 40, 8):
            part = ids[start : start + 8], list(range(start, start + 8)), [0, 7]
            assert near(found.step(*part), wanted.step(*part))
        for rows in (found, wanted):
            rows.truncate(33)
        for i in range(33, 50):
            assert near(found.step_one(ids[i], i), wanted.step_one(ids[i], i))


def near(found, wanted):
    return (found - wanted).abs().max() < 3e-2 * wanted.abs().max()


def test_weights_are_the_nearest_halves(half):
    parameters = dict(choice_decoder("like-gpt2").named_parameters())
    model = onnx.load(str(half("like-gpt2").path / "prefill.onnx"))
    halves = 0
    for tensor in model.graph.initializer:
        source = tensor.name.removesuffix(".transpose")
        if source in parameters:
            wanted = parameters[source].detach().half().numpy()
            wanted = wanted.T if tensor.name.endswith(".transpose") else wanted
            assert np.array_equal(onnx.numpy_helper.to_array(tensor), wanted)
            halves += 1
    assert halves == len(parameters)


# what half precision cannot hold


def outlier(norm: str = "rmsnorm"):
    """Two channels of the residual stream are +-1000 and steer all norms, as in real models."""
    decoder = random_decoder(dataclasses.replace(PLAIN, norm=norm))
    with torch.no_grad():
        decoder.embedding.weight[:, 3], decoder.embedding.weight[:, 7] = 1000.0, -1000.0
        for module in decoder.modules():
            if isinstance(module, Norm):  # what it divides by is made good for the other channels
                module.weight *= 1000 / (PLAIN.d_model / 2) ** 0.5
                module.weight[[3, 7]] = 0.0
    return decoder


@pytest.mark.parametrize("norm", ("rmsnorm", "layernorm"))
def test_norms_survive_a_channel_whose_square_overflows(norm, tmp_path):
    golden = export_decoder(outlier(norm), tmp_path / "b", **OPTIONS).golden
    assert golden.distinct >= 6
    assert golden.top1 > 0.9


class HalfNorm(Norm):
    """Statistics in the type of what comes, as a careless port computes them."""

    def forward(self, x):
        return x / torch.sqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


def test_statistics_in_half_precision_are_refused_with_the_layer(tmp_path):
    decoder = outlier()
    norm = HalfNorm(PLAIN, PLAIN.d_model)
    norm.load_state_dict(decoder.blocks[1].attention_norm.state_dict())
    decoder.blocks[1].attention_norm = norm.eval()
    wanted = r"blocks\.1\.attention_norm \(in pow\) has an activation of 1e\+06, beyond 65504"
    with pytest.raises(CheckFailed, match=wanted):
        export_decoder(decoder, tmp_path / "b", **OPTIONS)
    assert os.listdir(tmp_path) == []


def scaled(path: str, factor: float):
    decoder = random_decoder(CAPPED)
    with torch.no_grad():
        decoder.get_submodule(path).weight.mul_(factor)
    return decoder


@pytest.mark.parametrize(
    ("path", "factor", "wanted"),
    [
        ("blocks.1.ff.up", 3e2, ["blocks.1.ff.down", STREAM]),
        ("blocks.0.attention.qkv", 3e2, ["blocks.0.attention"]),
        ("blocks.0.ff.down", 1e6, ["blocks.0.ff.down", STREAM]),
    ],
)
@pytest.mark.parametrize("given", (True, False), ids=("given", "loaded"))
def test_what_overflows_is_fp32_in_the_bundle(path, factor, wanted, given, tmp_path):
    decoder = scaled(path, factor)
    if given:
        made = export_decoder(decoder, tmp_path / "b", **OPTIONS)
    else:
        save_checkpoint(tmp_path / "checkpoint", decoder)
        graph = GraphSize(OPTIONS["capacity"], OPTIONS["chunk"])
        golden = GoldenPrompt(None, PROMPT)
        model = ModelSource(source=str(tmp_path / "checkpoint"))
        recipe = Recipe("b", model, graph=graph, golden=golden, precision="fp16")
        made = export_recipe(recipe, tmp_path / "b")
    manifest = read_manifest(str(made.path / "manifest.json"))
    assert [pin.module for pin in manifest.pinned] == wanted
    assert "beyond 65504" in manifest.pinned[0].why
    assert made.golden.largest_kl < 1e-3
    model = onnx.load(str(made.path / "prefill.onnx"))
    typed = half_copy(decoder, wanted)
    stored = {t.name.removesuffix(".transpose"): t for t in model.graph.initializer}
    for name, weight in typed.named_parameters():
        array = onnx.numpy_helper.to_array(stored[name])
        array = array.T if stored[name].name.endswith(".transpose") else array
        assert np.array_equal(array, weight.detach().numpy()), name


@pytest.mark.parametrize(
    ("path", "factor", "named"),
    [
        ("blocks.0.attention.qkv", 3e4, r"blocks\.0\.attention .* a key or value"),
        ("head", 3e4, r"step in fp16 differs from PyTorch .*: KL"),  # logits of 100000
    ],
)
def test_what_no_pin_saves_is_refused_and_its_layer_named(path, factor, named, tmp_path):
    with pytest.raises(CheckFailed, match=named) as caught:
        export_decoder(scaled(path, factor), tmp_path / "b", **OPTIONS)
    assert caught.value.exit_code == 1
    assert os.listdir(tmp_path) == []


def test_the_callers_decoder_stays_as_it_is(tmp_path):
    decoder = random_decoder(PLAIN)
    before = {name: t.clone() for name, t in decoder.state_dict().items()}
    export_decoder(decoder, tmp_path / "b", **OPTIONS)
    assert {t.dtype for t in decoder.state_dict().values()} == {torch.float32}
    assert all(torch.equal(t, before[name]) for name, t in decoder.state_dict().items())


class Rounded(nn.Module):
    """Another function of one token, in half precision."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x):
        y = self.inner(x)
        return y * 1.5 if x.dtype == torch.float16 and len(x) == 1 else y


def test_a_step_that_goes_wrong_in_half_precision_alone_is_found(tmp_path):
    decoder = random_decoder(PLAIN)
    decoder.blocks[1].ff = Rounded(decoder.blocks[1].ff)
    with pytest.raises(CheckFailed, match=r"PyTorch step in fp16 differs .* at step 2 of 32"):
        export_decoder(decoder, tmp_path / "b", **OPTIONS)


# the measures


def test_kl_is_the_sum_over_the_whole_distribution():
    p, q = np.array([0.5, 0.25, 0.25]), np.array([0.25, 0.25, 0.5])
    wanted = 0.5 * np.log(2.0) - 0.25 * np.log(2.0)
    assert abs(kl(np.log(p) + 7.0, np.log(q) - 3.0) - wanted) < 1e-12
    assert kl(np.log(p), np.log(p)) == 0.0


def test_each_limit_is_held():
    want = np.zeros((10, 50), np.float32)
    want[:, 0] = 4.0
    assert measured("it", list(want), want, "fp16").top1 == 1.0
    far = want.copy()
    far[4, 9] = 0.25
    with pytest.raises(CheckFailed, match=r"it differs .* at step 5 of 10: largest logit error"):
        measured("it", list(far), want, "fp16")
    spread = want - np.where(np.arange(50) == 0, 0.19, 0.0).astype(np.float32)
    with pytest.raises(CheckFailed, match=r"at step 1 of 10: KL 0\.0"):
        measured("it", list(spread + np.where(np.arange(50) == 0, 0, 0.19)), want, "fp16")
    close = np.zeros((10, 50), np.float32)
    close[:, 0], close[:, 1] = 0.01, 0.009
    turned = close.copy()
    turned[:2, 1] = 0.011
    with pytest.raises(CheckFailed, match="likeliest token in 8 of 10 steps"):
        measured("it", list(turned), close, "fp16")
    turned[1] = close[1]
    assert measured("it", list(turned), close, "fp16").top1 == 0.9
    nothing = [row * np.nan for row in want]
    with pytest.raises(CheckFailed, match="logit error nan"):
        measured("it", nothing, want, "fp16")
