"""Finding the layer that is off, on real rows of ONNX Runtime, spoiled on purpose."""

import numpy as np
import pytest

from edgeformer.backends import open_backend
from edgeformer.bench.board import numerics
from edgeformer.bundle import Bundle
from tests import bundles


@pytest.fixture(scope="module")
def traced():
    bundle = Bundle.open(bundles.ROPE)
    with open_backend(bundle, "ort", threads=1) as backend:
        first = numerics.trace(backend, bundle.manifest)
        again = numerics.trace(backend, bundle.manifest)
    return bundle.manifest, first, again


def found(traced, precision="fp32", values=None, logits=None):
    manifest, wanted, _ = traced
    trace = numerics.Trace(
        wanted.values if values is None else values, wanted.logits if logits is None else logits
    )
    return numerics.compared(wanted, trace, precision, manifest.model["n_layers"])


def test_the_same_backend_twice_is_not_off_and_every_row_was_compared(traced):
    manifest, wanted, again = traced
    told = numerics.compared(wanted, again, "fp32", manifest.model["n_layers"])
    assert told["first_off"] is None
    assert len(told["layers"]) == 2 * manifest.model["n_layers"]
    assert told["rows"] == len(manifest.golden.prompt_ids) + numerics.STEPS
    assert wanted.logits.shape == (1 + numerics.STEPS, manifest.model["vocab_size"])
    assert [layer["error"] for layer in told["layers"]] == [0.0] * len(told["layers"])


@pytest.mark.parametrize("place, name", [(0, "0.key"), (3, "1.value")])
def test_the_first_of_several_that_are_off_is_named(traced, place, name):
    values = traced[1].values.copy()
    values[place:] *= 1.25
    told = found(traced, values=values)
    assert told["first_off"] == name
    assert told["layers"][place]["error"] == pytest.approx(0.25, rel=1e-5)
    where = "the embedding" if name.startswith("0") else "layer 0"
    assert told["what"].endswith(where)


def test_rounding_to_half_precision_is_not_off_in_fp16_and_is_in_fp32(traced):
    values = traced[1].values.astype(np.float16).astype(np.float32)
    assert found(traced, "fp16", values)["first_off"] is None
    assert found(traced, "fp32", values * 1.002)["first_off"] == "0.key"


def test_logits_alone_point_behind_the_last_layer(traced):
    told = found(traced, logits=traced[1].logits * 1.1)
    assert told["first_off"] == "logits"
    assert "the head" in told["what"]


def test_what_is_no_number_is_off_and_null(traced):
    values = traced[1].values.copy()
    values[2, 0, 0] = np.inf
    told = found(traced, values=values)
    assert told["first_off"] == "1.key"
    assert told["layers"][2]["error"] is None
