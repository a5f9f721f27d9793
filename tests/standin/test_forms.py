"""Host embeddings and typed half-precision graphs through TensorRT's bindings."""

import numpy as np
import pytest

from edgeformer.backends import open_backend
from edgeformer.backends.ort import OrtBackend
from edgeformer.bundle import Bundle
from edgeformer.generation.golden import golden_run
from tests import bundles
from tests.standin.arithmetic import add_engines, execute

FORMS = {
    "host": (bundles.HOST, "float32"),
    "half": (bundles.HALF, "float16"),
    # FP16 by the builder's flags: the embeddings stay as the graph declares them
    "host-flags": (bundles.HOST, "float16"),
}
SHAPES = {
    "split": {},
    "shared": {"layout": "shared", "past_rows": [64, 100]},
    "fixed-chunk": {"tokens": (16, 16), "rows": (1, 1)},
}


@pytest.fixture(params=sorted(FORMS))
def form(request):
    return FORMS[request.param]


@pytest.fixture(autouse=True)
def arithmetic(standin):
    standin.set_executor(execute)


def opened(form, folder, **engines):
    path = bundles.copied(form[0], folder)
    add_engines(path, cache_dtype=form[1], **engines)
    bundle = Bundle.open(path)
    return open_backend(bundle, "trt"), bundle


@pytest.mark.parametrize("layout", ["split", "shared"])
def test_golden_tokens_within_the_limits_twice_over(layout, form, tmp_path):
    backend, bundle = opened(form, tmp_path, layout=layout)
    with backend:
        for _ in range(2):
            run = golden_run(backend, bundle.manifest)
            assert run.beyond(bundle.manifest.golden.limits[backend.precision]) is None
            assert backend.precision == {"float32": "fp32", "float16": "fp16"}[form[1]]


@pytest.mark.parametrize("shape", sorted(SHAPES))
def test_chunks_padding_and_truncation_give_the_logits_of_the_cpu(shape, form, tmp_path):
    backend, bundle = opened(form, tmp_path, **SHAPES[shape])
    ids = [(7 * n * n + 3 * n + 1) % 280 for n in range(100)]
    most = 1e-4 if form[1] == "float32" else 0.02
    with backend, OrtBackend(bundle) as cpu:

        def close(part, at, row):
            found, wanted = (runs.step(part, at, [row]).logits for runs in (backend, cpu))
            return np.abs(found - wanted).max() <= most * max(1, np.abs(wanted).max())

        position = 0
        for count in [16, 5, 1, 1, 1, 1, 16, 1, 1, 1]:
            at = range(position, position + count)
            assert close(ids[position : position + count], at, count - 1), position
            position += count
        for runs in (backend, cpu):
            runs.truncate(20)
        assert close([5, ids[50], 7, ids[51]], [-1, 20, -1, 21], 3)
        assert backend.cached == cpu.cached == 22
        for n in range(22, 90):
            assert close([ids[n]], [n], 0), n
