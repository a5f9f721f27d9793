"""Dialect `ort`: one graph of fused operators computes what the decoder computes."""

import collections
import dataclasses
import itertools
import json

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch

import edgeformer
from edgeformer.backends import open_backend
from edgeformer.bundle import Bundle
from edgeformer.contract import fused_graph
from edgeformer.errors import CheckFailed, EdgeformerError
from edgeformer.export import fused_run
from edgeformer.export.build import export_decoder
from edgeformer.export.fuse import fused_nodes
from edgeformer.export.fused_run import FusedRun
from edgeformer.export.gate import Gate
from edgeformer.export.graphs import assemble, skeleton, trace_fused
from edgeformer.export.panels import with_panels
from edgeformer.export.parity import open_graph
from edgeformer.export.recipe import read_recipe
from edgeformer.export.weights import WeightsFile
from edgeformer.nn.config import Rope
from edgeformer.nn.fused_step import turns_inside
from edgeformer.nn.record import ConfigError
from tests.nn.choices import CHOICES, PLAIN, choice_decoder, random_decoder

QUICK = (
    "gqa",
    "alibi",
    "alibi-bfloat16",
    "learned",
    "window",
    "like-gemma",
    "parallel-two-norms",
    "norm-post",
    "all-biases",
)
ROWS = 64


def widened(name):
    """A choice with heads of 16 numbers where it can be: the operator turns those itself."""
    try:
        return dataclasses.replace(CHOICES[name], head_dim=16)
    except ConfigError:  # divisors for each frequency
        return dataclasses.replace(CHOICES[name], head_dim=8)


def written(decoder, folder, rows=ROWS):
    """The path of the graph, and its nodes."""
    traced = trace_fused(skeleton(decoder.config), rows, decoder.state_dict())
    shapes = {name: tuple(value.shape) for name, value in decoder.state_dict().items()}
    traced = with_panels(traced, shapes)
    with WeightsFile(folder) as weights:
        model = assemble(traced, list(weights.initializers(traced.weights)))
    path = folder / "step.onnx"
    path.write_bytes(model.SerializeToString())
    return path, traced.nodes


def assert_computes(decoder, folder):
    """In steps of 7, 1, 1 and many tokens, against the decoder without a cache."""
    path, _ = written(decoder, folder)
    ids = np.random.default_rng(0).integers(0, decoder.config.vocab_size, 40).tolist()
    with torch.inference_mode():
        wanted = decoder(torch.tensor([ids]))[0].numpy()
    run = FusedRun(open_graph(path))
    borders = [0, 7, 8, 9, 40]
    parts = [ids[a:b] for a, b in itertools.pairwise(borders)]
    found = np.concatenate([run(part, range(len(part))) for part in parts])
    scale = np.maximum(1, np.abs(wanted).max(axis=1))
    assert (np.abs(found - wanted).max(axis=1) / scale).max() <= 1e-4
    assert np.ptp(wanted) > 0.5


@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in CHOICES]
)
def test_every_choice_computes_what_the_decoder_does(name, tmp_path):
    config = widened(name)
    assert_computes(random_decoder(config, 1, 0.3), tmp_path)


@pytest.mark.parametrize("name", ["gqa", "rope-two-thetas", "wide-heads"])
def test_heads_that_the_operator_does_not_turn_are_turned_before_it(name, tmp_path):
    decoder = choice_decoder(name)  # heads of 8 or 12
    assert not turns_inside(decoder.config)
    assert_computes(decoder, tmp_path)


# what has no place in the operator as it is, and what it takes only in these sizes
MADE_TO_FIT = {
    "one-head": {"n_heads": 1, "n_kv_heads": 1, "head_dim": 16},
    "one-head-of-10": {"n_heads": 1, "n_kv_heads": 1, "head_dim": 10, "position": "none"},
    "narrow-heads-no-rope": {"head_dim": 6, "position": "none"},
    "narrow-heads-qk-norm": {"head_dim": 6, "qk_norm": "head"},
    "alibi-narrow": {"head_dim": 12, "position": "alibi", "window": 5, "attention_soft_cap": 2.0},
    "alibi-qk-norm": {"head_dim": 8, "position": "alibi", "qk_norm": "head"},
}


@pytest.mark.parametrize(
    "name",
    [n if n[:5] == "alibi" else pytest.param(n, marks=pytest.mark.slow) for n in MADE_TO_FIT],
)
def test_what_the_operator_does_not_take_is_made_to_fit(name, tmp_path):
    assert_computes(
        random_decoder(dataclasses.replace(PLAIN, **MADE_TO_FIT[name]), 1, 0.3), tmp_path
    )


@pytest.mark.parametrize("head_dim, width", [(32, 16), (48, 32)])
def test_the_first_sixteens_of_a_head_are_turned_inside(head_dim, width, tmp_path):
    config = dataclasses.replace(PLAIN, head_dim=head_dim, rope=Rope(width=width))
    assert turns_inside(config)
    assert_computes(random_decoder(config, 1, 0.3), tmp_path)
    assert not turns_inside(dataclasses.replace(config, rope=Rope(width=width - 8)))


def test_a_layer_is_ten_nodes_and_two_for_each_product(tmp_path):
    decoder = random_decoder(dataclasses.replace(PLAIN, head_dim=16), 1, 0.3)
    _, nodes = written(decoder, tmp_path)
    count = collections.Counter(node.op_type for node in nodes)
    layers = decoder.config.n_layers
    assert count["GroupQueryAttention"] == count["QuickGelu"] == count["Split"] == layers
    assert count["MatMul"] == 4 * layers + 1  # and the head
    # before the first layer no sum stands; the last norm takes in the last layer's
    assert count["SkipSimplifiedLayerNormalization"] == 2 * layers
    inside = [node.op_type for node in nodes if node.name.startswith("blocks.1/")]
    # ten, for a sum at the end is the next norm's, and in the last layer two that choose rows
    assert len(inside) == 12 + 2 * 4 and inside.count("Gather") == 2


@pytest.mark.parametrize(
    "name",
    ["gqa", "parallel-one-norm", "parallel-two-norms", "norm-post", "norm-output", "norm-sandwich"],
)
def test_only_rows_with_logits_go_through_the_last_block(name, tmp_path):
    decoder = random_decoder(widened(name), 1, 0.3)
    path, _ = written(decoder, tmp_path)
    ids = np.random.default_rng(0).integers(0, decoder.config.vocab_size, 24).tolist()
    with torch.inference_mode():
        wanted = decoder(torch.tensor([ids]))[0].numpy()
    run = FusedRun(open_graph(path))
    allowed = 1e-4 * float(np.abs(wanted).max())
    found = run(ids[:16], [15, 3, 3])  # in any order, more than once
    assert found == pytest.approx(wanted[[15, 3, 3]], abs=allowed)
    found = run(ids[16:], [7])  # reads keys and values of all
    assert found == pytest.approx(wanted[[23]], abs=allowed)
    assert shape_in_last_block(path, decoder) == (1, 2, decoder.config.d_model)


def shape_in_last_block(path, decoder):
    """Of what the last feed-forward gives, in a step of five tokens and two of them with logits."""
    model = onnx.load(path)
    last = f"blocks.{decoder.config.n_layers - 1}/ff/down/"
    down = [node for node in model.graph.node if node.name.startswith(last)][-1]
    model.graph.output.append(onnx.helper.make_empty_tensor_value_info(down.output[0]))
    session = ort.InferenceSession(model.SerializeToString())
    feeds = {"token_ids": [[1, 2, 3, 4, 5]], "rows": [4, 2], "last": [4], "total": [5]}
    feeds = {name: np.array(values, np.int32) for name, values in feeds.items()}
    for value in session.get_inputs():
        if value.name not in feeds:
            feeds[value.name] = np.zeros(value.shape, np.float32)
    return session.run([down.output[0]], feeds)[0].shape


def test_a_sum_that_two_norms_read_is_computed_once(tmp_path):
    decoder = random_decoder(widened("parallel-two-norms"), 1, 0.3)
    _, nodes = written(decoder, tmp_path)
    given = [name for node in nodes for name in node.output if name]
    assert len(given) == len(set(given))


def test_what_only_looks_like_a_norm_stays_as_it_is():
    def node(operator, inputs, output, **more):
        return onnx.helper.make_node(operator, inputs, [output], name=output, **more)

    weights = dict.fromkeys(("two", "eps", "scale"))
    nodes = [
        node("Add", ["a", "b"], "x"),
        node("Pow", ["y", "two"], "square"),  # of something else than what is divided
        node("ReduceMean", ["square"], "mean", axes=[-1]),
        node("Add", ["mean", "eps"], "variance"),
        node("Sqrt", ["variance"], "root"),
        node("Div", ["x", "root"], "divided"),
        node("Mul", ["divided", "scale"], "normed"),
        node("Sigmoid", ["normed"], "gate"),
        node("Mul", ["x", "gate"], "z"),  # not x * sigmoid(x)
    ]
    assert fused_nodes(nodes, weights, ["z"]) == nodes


def test_a_cpu_bundle_is_one_graph_and_others_are_two(tmp_path):
    decoder = random_decoder(widened("gqa"), 1, 0.35)
    for target, dialect, kinds in (
        ("cpu", None, ["step"]),
        ("cpu", "portable", ["prefill", "decode"]),
        ("jetson-nano", None, ["prefill", "decode"]),
    ):
        out = tmp_path / f"{target}-{dialect}"
        options = {"name": "m", "capacity": ROWS, "target": target, "dialect": dialect}
        export_decoder(decoder, out, **options)
        manifest = Bundle.open(str(out)).manifest
        assert sorted(manifest.graphs) == sorted(kinds)
        assert manifest.dialect == ("ort" if kinds == ["step"] else "portable")
        assert manifest.min_onnxruntime == ("1.24" if kinds == ["step"] else "1.10")
        assert ("fp16" in manifest.golden.limits) == (kinds != ["step"])


def test_blocks_of_eight_bits_stand_in_the_fused_graph(tmp_path):
    decoder = random_decoder(dataclasses.replace(widened("tied"), d_model=32), 1, 0.35)
    gate = Gate(max_loss=9.0, max_kl=9.0, min_top1=0.0)
    options = {"precision": "n8", "target": "cpu", "capacity": ROWS, "gate": gate}
    export_decoder(decoder, tmp_path / "n8", name="m", **options)
    model = onnx.load(tmp_path / "n8" / "step.onnx", load_external_data=False)
    count = collections.Counter(node.op_type for node in model.graph.node)
    assert count["MatMulNBits"] == 4 * decoder.config.n_layers + 1
    assert count["GatherBlockQuantized"] == 1 and not count["MatMul"] + count["Gemm"]


@pytest.mark.parametrize("choice", ["gqa", "tied"])
def test_products_in_int8_stand_in_the_fused_graph_where_it_is_asked_for(choice, tmp_path):
    decoder = random_decoder(widened(choice), 1, 0.35)
    gate = Gate(max_loss=9.0, max_kl=9.0, min_top1=0.0)
    options = {"precision": "int8-dynamic", "target": "cpu", "capacity": ROWS, "gate": gate}
    divergence = {}
    for dialect in (None, "ort"):
        out = tmp_path / str(dialect)
        made = export_decoder(decoder, out, name="m", dialect=dialect, **options)
        divergence[dialect] = made.quality.precisions["int8-dynamic"].kl
        manifest = Bundle.open(str(out)).manifest
        assert manifest.dialect == (dialect or "portable")
        assert manifest.min_onnxruntime == ("1.24" if dialect else "1.10")
    assert divergence["ort"] == pytest.approx(divergence[None], rel=0.5)
    model = onnx.load(tmp_path / "ort" / "step.onnx", load_external_data=False)
    count = collections.Counter(node.op_type for node in model.graph.node)
    assert count["MatMulInteger"] == 4 * decoder.config.n_layers + 1
    assert count["GroupQueryAttention"] == decoder.config.n_layers
    assert not count["MatMul"] + count["Gemm"]
    with edgeformer.load(str(tmp_path / "ort")) as run:
        ids = [step.token for step in run.stream([1, 2, 3], max_new_tokens=8)]
    assert len(ids) == 8


def test_what_dialect_ort_is_not_for_is_refused_with_a_reason(tmp_path):
    decoder = choice_decoder("gqa")
    for more, why in (
        ({"target": "jetson-nano"}, "say --target cpu"),
        ({"target": "cpu", "precision": "fp16"}, "precision fp16"),
        ({"target": "cpu", "embedding": "host"}, "looked up outside"),
    ):
        with pytest.raises(EdgeformerError, match=why) as caught:
            export_decoder(decoder, tmp_path / "no", name="m", dialect="ort", **more)
        assert caught.value.exit_code == 2
        assert not (tmp_path / "no").exists()


@pytest.mark.parametrize("precision", ["fp32", "n8"])
def test_alibi_models_and_narrow_heads_run_as_their_portable_bundles_do(precision, tmp_path):
    config = dataclasses.replace(CHOICES["alibi"], head_dim=12)
    gate = Gate(max_loss=9.0, max_kl=9.0, min_top1=0.0)
    options = {"target": "cpu", "capacity": ROWS, "precision": precision, "gate": gate}
    decoder, found = random_decoder(config, 1, 0.35), {}
    for dialect in ("ort", "portable"):
        path = tmp_path / dialect
        export_decoder(decoder, path, name="m", dialect=dialect, **options)
        with open_backend(Bundle.open(str(path)), threads=1) as backend:
            backend.step([1, 2, 3], range(3), [2])
            found[dialect] = backend.read_rows(0, 3), backend
            saved = found["ort"][0]
            assert saved.values == pytest.approx(found[dialect][0].values, abs=1e-3)
            backend.truncate(0)
            backend.write_rows(saved)
            found[dialect] = saved, backend.step([4], [3], [0]).logits
    wanted = found["portable"][1]
    assert found["ort"][1] == pytest.approx(wanted, abs=1e-4 * float(np.abs(wanted).max()))


def test_a_recipe_names_the_dialect(tmp_path):
    (tmp_path / "r.toml").write_text(
        'name = "m"\ntarget = "cpu"\ndialect = "portable"\n[model]\npreset = "nano-xs"\n'
    )
    assert read_recipe(tmp_path / "r.toml").dialect == "portable"
    (tmp_path / "r.toml").write_text('name = "m"\ndialect = "onnx"\n[model]\npreset = "nano-xs"\n')
    with pytest.raises(EdgeformerError, match="portable"):
        read_recipe(tmp_path / "r.toml")


def test_a_graph_that_computes_something_else_is_not_published(tmp_path, monkeypatch):
    class Broken(FusedRun):
        def __call__(self, token_ids, rows):
            logits = super().__call__(token_ids, rows)
            return logits + 1e-2 * (np.arange(logits.shape[-1]) % 2)

    monkeypatch.setattr(fused_run, "FusedRun", Broken)
    decoder = random_decoder(widened("gqa"), 1, 0.35)
    with pytest.raises(CheckFailed, match=r"step\.onnx differs from PyTorch"):
        export_decoder(decoder, tmp_path / "b", name="m", target="cpu", capacity=ROWS)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "change, why",
    [
        ({"dialect": "portable"}, "dialect ort"),
        ({"precision": "int8-dynamic"}, "dialect|in precision|has none for"),
        ({"target": "jetson-nano"}, "it is for cpu alone"),
        ({"capacity": 32}, "does not fit the model"),
    ],
)
def test_a_manifest_that_contradicts_its_fused_graph_is_refused(change, why, tmp_path):
    decoder = random_decoder(widened("gqa"), 1, 0.35)
    export_decoder(decoder, tmp_path / "b", name="m", target="cpu", capacity=ROWS)
    path = tmp_path / "b" / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(EdgeformerError, match=why):
        Bundle.open(str(tmp_path / "b"))


def test_the_contract_says_which_rows_are_where():
    model = PLAIN.to_json()
    graph = fused_graph("step.onnx", model, 50, counted=True)
    names = [spec.name for spec in graph.inputs]
    assert names[:5] == ["token_ids", "positions", "rows", "last", "total"]
    assert graph.inputs[5].shape == (1, model["n_kv_heads"], 50, model["head_dim"])
    assert [spec.name for spec in graph.outputs[:2]] == ["logits", "tokens"]
