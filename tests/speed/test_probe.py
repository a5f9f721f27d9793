"""Probes are sane and count what they say. Nothing here depends on how fast this machine is."""

import threading

import numpy as np
import pytest

from edgeformer.backends import open_backend, ort_module
from edgeformer.bundle import Bundle
from edgeformer.errors import EdgeformerError
from edgeformer.speed import graphs, here, probe
from edgeformer.speed.costs import Matrix, Steps
from tests import bundles

FLOATS = Matrix(24, 40, "MatMul", 32)
INTEGERS = Matrix(24, 40, "MatMulInteger", 8)


def run(graph, threads=1):
    outputs = {name: np.full(shape, np.nan, np.float32) for name, shape in graph.outputs.items()}
    bound = ort_module().BoundGraph(graph.model, threads, graph.inputs, outputs)
    bound.run()
    return outputs


@pytest.mark.parametrize("tokens", [1, 3])
def test_a_probe_of_products_multiplies_what_it_says(tokens):
    graph = graphs.products([FLOATS, FLOATS], tokens)
    given = graph.inputs["x24"]
    for name, found in run(graph).items():
        weight = graphs._weights(FLOATS, name).reshape(24, 40)
        np.testing.assert_allclose(found, given.dot(weight), rtol=1e-4, atol=1e-5)
        assert found.shape == (tokens, 40)


def test_no_two_matrices_of_a_probe_are_equal():
    one, other = (graphs._weights(FLOATS, name) for name in ("y0", "y1"))
    assert len(one) == 24 * 40
    assert np.mean(one == other) < 0.01


def test_a_probe_of_integers_is_near_what_floats_would_give():
    graph = graphs.products([INTEGERS], 3)
    weight = graphs._weights(INTEGERS, "y0").view(np.int8).reshape(24, 40).astype(np.float32)
    exact = graph.inputs["x24"].dot(weight * np.float32(0.01))
    found = run(graph)["y0"]
    assert np.abs(found - exact).max() < 0.05 * np.abs(exact).max()


def test_layers_run_with_and_without_what_stands_between():
    bare, whole = (graphs.layers(2, 2, 2, 6, nodes=nodes) for nodes in (False, True))
    assert (bare.nodes, whole.nodes) == (2, 2 + 2 * graphs.BETWEEN)
    for graph in (bare, whole):
        (found,) = run(graph).values()
        assert found.shape == (1, 24)
        assert np.isfinite(found).all()
        assert found.any()


def test_each_thread_reads_its_own_part_and_bytes_are_counted_once(monkeypatch):
    seen = []

    def reading(part):
        seen.append((threading.get_ident(), part.nbytes))

    monkeypatch.setattr(probe, "_dot", reading)
    monkeypatch.setattr(probe, "_largest", reading)
    assert probe.read_bandwidth(1 << 20, 2)() > 0
    assert {size for _, size in seen} == {1 << 19}
    assert len(seen) >= 2 * 2 * 3 + 2  # both ways thrice, by two threads, and a sample


def test_a_bandwidth_is_a_rate_of_bytes(monkeypatch):
    monkeypatch.setattr(probe, "_pass", lambda parts, reading, repeats: 0.25 * repeats)
    assert probe.read_bandwidth(1 << 20, 2)() == 4 * (1 << 20)
    assert probe.read_bandwidth(1, 1)() == 4 * probe.LEAST_BYTES
    assert probe.read_bandwidth(1 << 40, 1)() == 4 * probe.MOST_BYTES


def test_samples_are_taken_by_turns():
    order = []

    def sampler(name):
        return lambda: order.append(name) or float(len(order))

    one, other = probe.samples([sampler("one"), sampler("other")], 3)
    assert order == ["one", "other"] * 3
    assert (one.values, other.values) == ((1, 3, 5), (2, 4, 6))
    assert (one.low, one.middle, one.high) == (1, 3, 5)


def test_a_probe_of_this_machine_gives_an_ordered_range_of_each_figure():
    manifest = Bundle.open(bundles.ROPE).manifest
    steps = Steps(Bundle.open(bundles.ROPE), manifest.precision, True)
    for values in here.Probe(steps, 10, 1).machine(3):
        assert 0 <= values.low <= values.middle <= values.high < float("inf")
        assert values.high > 0


@pytest.mark.parametrize("path", [bundles.ROPE, bundles.LEARNED])
def test_a_short_run_measures_every_step_and_leaves_the_cache_empty(path):
    bundle = Bundle.open(path)
    with open_backend(bundle, "ort", 1) as backend:
        found = here.measure(backend, bundle.manifest, 20, count=5)
        assert backend.cached == 0
    assert len(found.token_s) == 5
    assert len(found.prefill_s) == 2
    assert min(found.token_s + found.prefill_s) > 0
    assert found.tokens == min(bundle.manifest.chunk, bundle.manifest.capacity // 2)


def test_a_short_run_never_leaves_the_capacity():
    bundle = Bundle.open(bundles.LEARNED)
    with open_backend(bundle, "ort", 1) as backend:
        assert here.measure(backend, bundle.manifest, 1000, count=50).token_s


def test_a_graph_that_onnxruntime_refuses_is_an_error_of_ours():
    with pytest.raises(EdgeformerError, match="onnxruntime"):
        ort_module().BoundGraph(b"\x08\x07", 1, {}, {})
