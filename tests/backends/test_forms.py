"""Bundles whose embedding is looked up here, and bundles in half precision, on ONNX Runtime."""

import numpy as np
import onnxruntime
import pytest

from edgeformer.backends import open_backend
from edgeformer.backends.embedding import open_table
from edgeformer.backends.ort import OrtBackend
from edgeformer.bundle import Bundle
from edgeformer.errors import EdgeformerError
from edgeformer.generation.golden import golden_run
from tests import bundles

IDS = [(7 * n * n + 3 * n + 1) % 280 for n in range(100)]


def backend(path):
    return OrtBackend(Bundle.open(path), 1)


def test_an_embedding_looked_up_here_gives_the_logits_of_the_graph_to_the_bit():
    with backend(bundles.HOST) as host, backend(bundles.ROPE) as graph:
        position = 0
        for count in [16, 5, 1, 1, 16, 3] + [1] * 30:
            part, at = IDS[position : position + count], range(position, position + count)
            found, wanted = (b.step(part, at, range(count)).logits for b in (host, graph))
            assert np.array_equal(found, wanted), position
            position += count
            if position == 42:
                for both in (host, graph):
                    both.truncate(30)
                    both.drop(3, 9)
        assert host.cached == graph.cached
        kept = [b.read_rows(0, b.cached) for b in (host, graph)]
        assert np.array_equal(kept[0].values, kept[1].values)


def test_padding_has_a_row_of_the_table_and_is_not_kept():
    with backend(bundles.HOST) as host, backend(bundles.ROPE) as graph:
        padded = [5, IDS[0], 9, IDS[1]], [-1, 0, -1, 1], [3]
        assert np.array_equal(*(b.step(*padded).logits for b in (host, graph)))
        assert host.cached == 2


def test_the_table_is_mapped_and_cannot_be_written():
    table = open_table(Bundle.open(bundles.HOST))
    assert isinstance(table.base, np.memmap)
    with pytest.raises(ValueError):
        table[0, 0] = 1
    assert open_table(Bundle.open(bundles.ROPE)) is None


@pytest.mark.parametrize("ids", [[280], [-1]])
def test_an_id_outside_the_table_is_refused(ids):
    with backend(bundles.HOST) as host, pytest.raises(EdgeformerError, match="not in 0 to 279"):
        host.step(ids, [0], [0])


@pytest.mark.parametrize("path", [bundles.HOST, bundles.HALF])
def test_golden_tokens_twice_over(path):
    bundle = Bundle.open(path)
    with open_backend(bundle, "ort", 1) as found:
        for _ in range(2):
            run = golden_run(found, bundle.manifest)
            assert run.beyond(bundle.manifest.golden.limits[found.precision]) is None
            assert run.top1 > 0.95
        assert ("computes the fp16 graphs in FP32" in found.reason) == (path == bundles.HALF)


def test_a_half_precision_bundle_has_a_half_precision_cache():
    with backend(bundles.HALF) as half, backend(bundles.ROPE) as whole:
        assert (half.precision, whole.precision) == ("fp16", "fp32")
        found, wanted = (b.step(IDS[:16], range(16), [15]).logits for b in (half, whole))
        assert found.dtype == np.float32
        assert 0 < np.abs(found - wanted).max() < 0.02 * np.abs(wanted).max()
        rows = half.read_rows(0, 16)
        assert rows.values.dtype == np.float32
        assert np.array_equal(rows.values, rows.values.astype(np.float16))
        after = half.step([IDS[16]], [16], [0]).logits
        half.truncate(0)
        half.write_rows(rows)
        assert np.array_equal(half.step([IDS[16]], [16], [0]).logits, after)


def test_a_worse_run_is_named_by_what_is_worse():
    bundle = Bundle.open(bundles.HALF)
    limits = bundle.manifest.golden.limits["fp16"]
    with backend(bundles.HALF) as half:
        run = golden_run(half, bundle.manifest)
    assert "logit error is" in run.beyond(limits._replace(logit_error=1e-9))
    assert "KL is" in run.beyond(limits._replace(kl=0.0))
    assert "likeliest tokens" in run._replace(mismatches=[None] * 20).beyond(limits)
    assert "logit error is nan" in run._replace(largest_logit_error=float("nan")).beyond(limits)


def test_dynamic_int8_runs_on_every_onnxruntime_within_its_own_limits():
    bundle = Bundle.open(bundles.INT8)
    with open_backend(bundle, "ort", threads=1) as found:
        assert found.precision == "int8-dynamic"
        run = golden_run(found, bundle.manifest)
    limits = bundle.manifest.golden.limits["int8-dynamic"]
    assert run.beyond(limits) is None
    assert limits.kl < 3 * bundle.manifest.golden.largest_kl + 0.03, "any model would pass"
    assert run.largest_logit_error > 1e-3, "nothing was quantized"


def test_dynamic_int8_gives_nearly_the_same_in_chunks_and_token_by_token():
    whole, single = [], []
    with backend(bundles.INT8) as chunks, backend(bundles.INT8) as tokens:
        for start in range(0, 48, 16):
            part = IDS[start : start + 16], range(start, start + 16)
            whole.extend(chunks.step(*part, range(16)).logits)
        for i, token in enumerate(IDS[:48]):
            single.append(tokens.step([token], [i], [0]).logits[0])
    apart = np.abs(np.array(whole) - np.array(single)).max(axis=1) / np.abs(whole).max()
    assert 0 < apart.mean() < 0.06


def test_weights_in_blocks_run_where_the_operators_are_and_say_so_elsewhere():
    bundle = Bundle.open(bundles.BLOCKS)
    if int(onnxruntime.__version__.split(".")[1]) < 24:
        with pytest.raises(EdgeformerError, match=r"needs onnxruntime 1\.24 or newer"):
            open_backend(bundle)
        return
    with open_backend(bundle, threads=1) as found:
        assert found.precision == "n8"
        run = golden_run(found, bundle.manifest)
    assert run.beyond(bundle.manifest.golden.limits["n8"]) is None
    # tight enough to tell another model: its own figures, not a wide bound for all
    assert bundle.manifest.golden.limits["n8"].kl < 4 * bundle.manifest.golden.largest_kl
