"""The fit plan of typed graphs and host embeddings, and the commands that make a bundle fit."""

import json

import pytest

from edgeformer.__main__ import main
from edgeformer.bundle import Bundle
from edgeformer.cli.plan import Place, _report
from edgeformer.engines import plan
from edgeformer.engines.needs import Case, Sizes
from tests import bundles

CASE = Case("split", "fp32", 100, 16)


@pytest.fixture(scope="module")
def sizes():
    return Sizes(Bundle.open(bundles.ROPE))


def test_a_typed_graph_is_counted_as_it_is(sizes):
    """Half precision has half of the weights, but for what stays FP32; the cache is half too."""
    half = Sizes(Bundle.open(bundles.HALF))
    for kind in ("prefill", "decode"):
        real = sum(t.bytes for t in half._graphs[kind].initializers.values() if t.element != 7)
        longs = sum(t.count for t in half._graphs[kind].initializers.values() if t.element == 7)
        assert half.weights(kind, "fp16") == real + 4 * longs
        # an engine of FP32 graphs halves the same weights by its flag
        assert abs(half.weights(kind, "fp16") - sizes.weights(kind, "fp16")) < 64
    case = CASE._replace(precision="fp16")
    found, wanted = half.needs(case), sizes.needs(case)
    assert (found.cache, found.new_rows) == (wanted.cache, wanted.new_rows)
    assert 0.9 < found.activations / wanted.activations < 1.1
    assert found.building < wanted.building, "the parser holds half"


def test_a_host_embedding_is_in_no_engine_and_its_rows_are_sent(sizes):
    host = Sizes(Bundle.open(bundles.HOST))
    asked = sizes.needs(CASE._replace(embedding="host"))
    assert host.needs(CASE) == host.needs(CASE._replace(embedding="host"))
    assert host.needs(CASE).weights == asked.weights, "as the plan said before it was exported"
    assert host.needs(CASE).new_rows == sizes.needs(CASE).new_rows + 16 * 32 * 4
    assert (host.table(), host.tied()) == (0, False)


def test_onnxruntime_holds_half_precision_weights_in_fp32_up_to_twice(sizes):
    case = CASE._replace(layout="onnxruntime", precision="fp16")
    half = Sizes(Bundle.open(bundles.HALF)).needs(case)
    whole = sizes.needs(case._replace(precision="fp32"))
    assert 1.9 < half.weights / whole.weights < 2.6
    assert 0.9 < half.activations / whole.activations < 1.2
    assert half.new_rows == whole.new_rows // 2


def plan_of(capsys, bundle, *arguments):
    status = main(["plan", bundle, *arguments])
    return (status, *capsys.readouterr())


def test_the_export_that_makes_it_fit_is_told(capsys):
    rope = Bundle.open(bundles.ROPE)
    case = Case("shared", "fp16", 100, 16)
    needs = Sizes(rope).needs(case._replace(embedding="host"))
    # no wish of whole MiB is that near: a report of the plan itself
    found = plan.make_plan(rope, case, needs.largest, ("shared",))
    command = "python -m edgeformer.export RECIPE.toml -o BUNDLE --embedding host"
    assert found.commands == [command]
    assert plan.as_json(found)["change"]["commands"] == [command]
    place = Place(None, "jetson-nano", needs.largest, "told")
    assert "\n  " + command + "\n" in _report("it", place, found)


def test_fp16_graphs_need_a_tensorrt_that_takes_them(capsys):
    status, out, _ = plan_of(capsys, bundles.HALF, "--target", "jetson-orin-nano")
    assert status == 0
    assert "fp16" in out
    status, out, err = plan_of(capsys, bundles.HALF, "--target", "jetson-nano")
    assert (status, out) == (2, "")
    assert "TensorRT 10 and newer" in err
    assert "--precision fp32" in err
    status, _, err = plan_of(
        capsys, bundles.HALF, "--target", "jetson-orin-nano", "--precision", "fp32"
    )
    assert status == 2
    assert "needs a bundle of fp32 graphs" in err
    status, out, _ = plan_of(capsys, bundles.HALF)
    assert status == 0
    assert "tiny-half on cpu, fp16" in out
    status, _, err = plan_of(capsys, bundles.HALF, "--target", "cpu", "--precision", "fp32")
    assert status == 2
    assert "onnxruntime runs graphs as they are" in err


def test_a_host_embedding_is_not_offered_twice(capsys):
    status, out, _ = plan_of(
        capsys, bundles.HOST, "--target", "jetson-nano", "--json", "--memory", "690"
    )
    assert json.loads(out)["case"]["embedding"] == "host"
    assert "host embedding" not in out
    assert status == 1


@pytest.mark.parametrize("options", [[], ["--precision", "int8"]])
def test_graphs_that_no_tensorrt_reads_are_not_planned_for_one(capsys, options):
    for path in (bundles.BLOCKS, bundles.INT8):
        status, out, err = plan_of(capsys, path, "--target", "jetson-orin-nano", *options)
        assert (status, out) == (2, "") and "no TensorRT reads" in err
        status, out, _ = plan_of(capsys, path, "--target", "cpu")
        assert status == 0 and "running fits" in out
