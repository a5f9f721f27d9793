"""What may be built where, and under which key; without TensorRT."""

import pytest

from edgeformer.bundle import Bundle
from edgeformer.engines.here import Here
from edgeformer.engines.needs import LAYOUTS
from edgeformer.engines.wanted import Asked, check_precision, past_rows, shapes, wanted
from edgeformer.errors import EdgeformerError
from tests import bundles

NANO = Here("8.2.1", "NVIDIA Tegra X1", "5.3", True, False, False, ["CUBLAS", "CUDNN"])
ORIN = Here("10.3.0", "Orin", "8.7", True, True, True, [])
NEWEST = Here("11.4.0", "Orin", "8.7", False, True, True, [])
ASKED = Asked("fp16", (100,), (256, 128), ())


def stored(precision):
    return Bundle.open(bundles.ROPE).manifest._replace(precision=precision)


@pytest.mark.parametrize(
    ("graphs", "precision", "here", "typed"),
    [
        ("fp32", "fp32", NANO, False),
        ("fp32", "fp16", NANO, False),
        ("fp32", "fp16", ORIN, False),
        ("fp32", "fp32", NEWEST, True),
        ("fp16", "fp16", ORIN, True),
        ("fp16", "fp16", NEWEST, True),
        ("int8-qdq", "int8", ORIN, False),
        ("int8-qdq", "int8", NEWEST, True),
    ],
)
def test_what_can_be_built_and_who_decides_the_types(graphs, precision, here, typed):
    assert check_precision(stored(graphs), here, precision, False) == typed


@pytest.mark.parametrize(
    ("graphs", "precision", "here", "told"),
    [
        ("fp32", "fp16", NEWEST, ["11.4.0 has no FP16 flag", "--precision fp16 -o BUNDLE"]),
        ("fp16", "fp16", NANO, ["8.2.1 does not take", "--precision fp32 -o BUNDLE"]),
        ("fp16", "fp32", ORIN, ["holds fp16 graphs", "--precision fp32 -o BUNDLE"]),
        ("fp32", "int8", ORIN, ["needs int8-qdq graphs", "--precision fp16 or fp32 can be built"]),
        ("fp32", "int8", NANO, ["Jetson Nano's GPU", "use --precision fp16", "--force"]),
        ("int8-qdq", "int8", NANO, ["Jetson Nano's GPU", "--force"]),
        ("int8-qdq", "int8", NANO._replace(compute_capability="6.2"), ["no fast INT8", "--force"]),
        ("int8-dynamic", "fp16", ORIN, ["holds int8-dynamic graphs", "no TensorRT reads"]),
    ],
)
def test_what_cannot_be_built_names_the_reason_and_the_command(graphs, precision, here, told):
    with pytest.raises(EdgeformerError) as caught:
        check_precision(stored(graphs), here, precision, False)
    for words in told:
        assert words in str(caught.value)
    assert caught.value.exit_code == 2


def test_force_overrides_the_gpu_and_not_the_graphs():
    assert check_precision(stored("int8-qdq"), NANO, "int8", True) is False
    with pytest.raises(EdgeformerError, match="needs int8-qdq graphs"):
        check_precision(stored("fp32"), NANO, "int8", True)


def test_sizes_of_the_cache():
    assert past_rows("capacity", 1000) == (1000,)
    assert past_rows("buckets", 1000) == (64, 128, 256, 512, 1000)
    assert past_rows("buckets", 64) == (64,)
    assert past_rows("buckets", 20) == (20,)
    assert past_rows("1000,10,10", 1000) == (10, 1000)
    for text in ("10", "1001", "0,1000", "", "a", "10,", "-1,1000", "9" * 12):
        with pytest.raises(EdgeformerError, match="--past-rows is"):
            past_rows(text, 1000)


def test_the_key_changes_with_everything_that_changes_an_engine():
    bundle = Bundle.open(bundles.ROPE)
    base = wanted(bundle, ORIN, ASKED, "split", False)
    assert base.key.startswith("fp16-split-")
    assert wanted(bundle, ORIN, ASKED, "split", False) == base
    files = dict(bundle.manifest.files)
    files["weights.bin"] = files["weights.bin"]._replace(sha256="0" * 64)
    others = [
        (bundle, ORIN._replace(tensorrt="10.4.0"), ASKED, "split", False),
        (bundle, ORIN._replace(name="Another"), ASKED, "split", False),
        (bundle, ORIN._replace(compute_capability="8.6"), ASKED, "split", False),
        (bundle, ORIN, ASKED._replace(precision="fp32"), "split", False),
        (bundle, ORIN, ASKED._replace(past_rows=(64, 100)), "split", False),
        (bundle, ORIN, ASKED._replace(workspaces=(256,)), "split", False),
        (bundle, ORIN, ASKED._replace(tactics=("CUBLAS",)), "split", False),
        (bundle, ORIN, ASKED, "shared", False),
        (bundle, ORIN, ASKED, "split", True),
        (bundles.opened(bundles.ROPE, chunk=8), ORIN, ASKED, "split", False),
        (bundles.opened(bundles.ROPE, files=files), ORIN, ASKED, "split", False),
    ]
    keys = {wanted(*other).key.split("-")[-1] for other in others}
    assert len(keys) == len(others)
    assert base.key.split("-")[-1] not in keys


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_set_holds_the_hashes_of_its_graphs_and_of_their_weights(layout):
    bundle = Bundle.open(bundles.ROPE)
    graphs = wanted(bundle, ORIN, ASKED, layout, False).graphs
    files = {"prefill.onnx", "weights.bin"} | ({"decode.onnx"} if layout == "split" else set())
    assert graphs == {name: bundle.manifest.files[name].sha256 for name in files}


def test_the_shapes_of_a_profile():
    bundle = Bundle.open(bundles.ROPE)
    graph = bundle.manifest.graphs["prefill"]
    width = graph.inputs[-1].shape[1]
    asked = ASKED._replace(past_rows=(64, 100))
    split = shapes(graph, wanted(bundle, ORIN, asked, "split", False), "prefill")
    assert split["token_ids"] == ([8], [16], [16])
    assert split["rows"] == ([1], [1], [8])
    assert split["past_positions"] == ([64], [100], [100])
    assert split["past.0.key"] == ([64, width], [100, width], [100, width])
    # one engine for both: most of its time goes into single tokens
    shared = shapes(graph, wanted(bundle, ORIN, asked, "shared", False), "prefill")
    assert shared["positions"] == ([1], [1], [16])


def test_a_chunk_shorter_than_a_verification_is_the_engines_range():
    bundle = bundles.opened(bundles.ROPE, chunk=4)
    found = wanted(bundle, ORIN, ASKED, "split", False)
    assert found.ranges["prefill"] == ((4, 4), (1, 4))


def test_an_input_with_a_size_of_its_own_is_refused():
    bundle = Bundle.open(bundles.ROPE)
    graph = bundle.manifest.graphs["prefill"]
    strange = graph.inputs[0]._replace(shape=("batch",))
    with pytest.raises(EdgeformerError, match="other than T, P and R"):
        shapes(
            graph._replace(inputs=(strange,)),
            wanted(bundle, ORIN, ASKED, "split", False),
            "prefill",
        )
