"""The ONNX Runtime backend on real tiny bundles: its cache, its limits, its errors."""

import struct

import numpy as np
import pytest

from edgeformer.backends import Rows, open_backend
from edgeformer.backends.ort import OrtBackend
from edgeformer.bundle import Bundle
from edgeformer.errors import BundleError, EdgeformerError
from tests import bundles


def fed(backend, ids, sizes):
    """Logits of every token, fed in steps of the given sizes: [len(ids), vocab]."""
    rows = []
    start = 0
    while start < len(ids):
        size = min(sizes[len(rows) % len(sizes)], len(ids) - start)
        positions = range(start, start + size)
        rows.append(backend.step(ids[start : start + size], positions, range(size)).logits)
        start += size
    return np.concatenate(rows)


def golden_text(bundle):
    golden = bundle.manifest.golden
    return list(golden.prompt_ids + golden.greedy_ids)


def assert_close(found, wanted):
    error = np.abs(found - wanted) / np.maximum(1, np.abs(wanted))
    assert error.max() <= 1e-4


@pytest.fixture(params=bundles.BOTH)
def bundle(request):
    return Bundle.open(request.param)


@pytest.fixture
def backend(bundle):
    with open_backend(bundle, "ort", threads=1) as opened:
        yield opened


def test_chunks_of_any_size_equal_one_token_at_a_time(bundle, backend):
    ids = golden_text(bundle)[: bundle.manifest.capacity]
    wanted = fed(backend, ids, [1])
    assert np.ptp(wanted) > 1
    for sizes in ([16], [7], [1, 16, 3], [13, 1, 1]):
        backend.truncate(0)
        assert_close(fed(backend, ids, sizes), wanted)
        assert backend.cached == len(ids)


def test_greedy_steps_give_the_golden_tokens_across_bucket_borders(bundle, backend):
    golden = bundle.manifest.golden
    ids, positions = list(golden.prompt_ids), range(len(golden.prompt_ids))
    found = backend.step(ids, positions, [len(ids) - 1], "token").tokens
    while len(found) < len(golden.greedy_ids):
        found += backend.step([found[-1]], [backend.cached], [0], "token").tokens
    assert found == list(golden.greedy_ids)


def test_the_rope_bundle_crosses_a_bucket_border_and_the_learned_one_has_one():
    capacities = [Bundle.open(path).manifest.capacity for path in bundles.BOTH]
    assert capacities == [100, 32]
    golden = Bundle.open(bundles.ROPE).manifest.golden
    assert len(golden.prompt_ids) < 64 < len(golden.prompt_ids + golden.greedy_ids)


def test_a_token_is_the_largest_logit_of_its_row(bundle, backend):
    ids = golden_text(bundle)[:9]
    tokens = backend.step(ids, range(9), range(9), "token").tokens
    backend.truncate(0)
    logits = backend.step(ids, range(9), range(9)).logits
    assert logits.shape == (9, bundle.manifest.model["vocab_size"])
    assert logits.dtype == np.float32
    assert tokens == logits.argmax(axis=1).tolist()
    backend.truncate(0)
    some = backend.step(ids, range(9), [8, 2, 2]).logits
    assert_close(some, logits[[8, 2, 2]])


def test_logits_stay_as_they_were_when_the_next_step_runs(bundle, backend):
    ids = golden_text(bundle)
    first = backend.step(ids[:3], range(3), [2]).logits
    kept = first.copy()
    backend.step(ids[3:6], range(3, 6), [0, 1, 2])
    backend.step([ids[6]], [6], [0])
    assert (first == kept).all()


def test_padding_is_neither_seen_nor_kept(bundle, backend):
    ids = golden_text(bundle)[:8]
    wanted = fed(backend, ids, [4])
    backend.truncate(0)
    first = backend.step([ids[0], 5, ids[1], 5, 5], [0, -1, 1, -1, -1], [0, 2]).logits
    assert backend.cached == 2
    second = backend.step([5, *ids[2:8], 5], [-1, 2, 3, 4, 5, 6, 7, -1], range(1, 7)).logits
    assert backend.cached == 8
    assert_close(np.concatenate([first, second]), wanted)


def test_truncated_rows_are_never_seen_again(bundle, backend):
    ids = golden_text(bundle)
    wanted = fed(backend, ids[:12], [5])
    backend.truncate(4)
    backend.step([7] * 6, range(4, 10), [0])  # rejected drafts
    backend.truncate(4)
    assert backend.cached == 4
    rest = backend.step(ids[4:12], range(4, 12), range(8)).logits
    assert_close(rest, wanted[4:12])


def test_the_first_step_after_truncate_0_is_that_of_a_fresh_backend(bundle, backend):
    ids = golden_text(bundle)
    wanted = backend.step(ids[:3], range(3), [2]).logits
    backend.truncate(0)
    fed(backend, ids[: bundle.manifest.capacity], [9])
    backend.truncate(0)
    assert (backend.step(ids[:3], range(3), [2]).logits == wanted).all()


def test_drop_equals_putting_back_all_other_rows(bundle, backend):
    ids = golden_text(bundle)[:12]
    fed(backend, ids, [12])
    front, back = backend.read_rows(0, 3), backend.read_rows(7, 12)
    backend.drop(3, 7)
    assert backend.cached == 8
    dropped = backend.step([ids[0]], [12], [0]).logits
    backend.truncate(0)
    backend.write_rows(back)  # in another order: rows are found by position
    backend.write_rows(front)
    assert_close(backend.step([ids[0]], [12], [0]).logits, dropped)
    backend.truncate(0)
    fed(backend, ids, [12])
    assert np.abs(backend.step([ids[0]], [12], [0]).logits - dropped).max() > 1e-3


def test_saved_rows_continue_in_another_backend(bundle, backend):
    ids = golden_text(bundle)[:20]
    fed(backend, ids, [10])
    saved = backend.read_rows(0, 20)
    wanted = backend.step([ids[3]], [20], [0]).logits
    backend.truncate(0)
    fed(backend, [1] * 20, [10])  # what was saved is a copy
    with open_backend(bundle, threads=1) as other:
        other.write_rows(saved)
        assert other.cached == 20
        assert (other.step([ids[3]], [20], [0]).logits == wanted).all()


def test_rows_of_another_shape_are_refused(backend):
    rows = Rows(np.zeros(2, np.int32), np.zeros((1, 2, 3), np.float32))
    with pytest.raises(EdgeformerError) as caught:
        backend.write_rows(rows)
    assert "(1, 2, 3)" in str(caught.value)


def test_the_whole_capacity_can_be_used_and_no_more(bundle, backend):
    capacity = bundle.manifest.capacity
    fed(backend, [1] * capacity, [8])
    assert backend.cached == capacity
    with pytest.raises(EdgeformerError) as caught:
        backend.step([1], [capacity - 1], [0])
    assert str(capacity) in str(caught.value)
    assert backend.cached == capacity


@pytest.mark.parametrize(
    "ids, positions, rows, want, named",
    [
        ([], [], [], "logits", "0 tokens"),
        ([1, 2], [0], [0], "logits", "1 positions"),
        ([1] * 33, range(33), [0], "logits", "33 tokens"),
        ([-1], [0], [0], "logits", "-1"),
        ([99999], [0], [0], "logits", "99999"),
        ([2**40], [0], [0], "logits", str(2**40)),
        ([1], [-2], [0], "logits", "-2"),
        ([1], [120], [0], "logits", "120"),
        ([1], [0], [], "logits", "rows"),
        ([1], [0], [1], "logits", "rows"),
        ([1], [0], [-1], "logits", "rows"),
        ([1], [0], [0, 0], "logits", "rows"),
        ([1], [0], [0], "best", "best"),
    ],
)
def test_a_step_that_the_graph_would_answer_with_garbage_is_refused(
    backend, ids, positions, rows, want, named
):
    backend.step([3], [0], [0])
    with pytest.raises(EdgeformerError) as caught:
        backend.step(ids, positions, rows, want)
    assert named in str(caught.value)
    assert backend.cached == 1


@pytest.mark.parametrize("start, stop", [(0, 4), (-1, 2), (2, 1)])
def test_rows_that_are_not_in_use_are_refused(backend, start, stop):
    backend.step([3, 4, 5], range(3), [0])
    for call in (backend.drop, backend.read_rows):
        with pytest.raises(EdgeformerError):
            call(start, stop)
    with pytest.raises(EdgeformerError):
        backend.truncate(4)
    assert backend.cached == 3


def test_bindings_change_only_with_the_token_count_or_at_a_bucket_border():
    class Counting(OrtBackend):
        bound = 0

        def _bind(self, count, outputs, past):
            Counting.bound += 1
            super()._bind(count, outputs, past)

    with Counting(Bundle.open(bundles.ROPE), 1) as backend:
        cache = backend._cache.values
        address = cache.__array_interface__["data"]
        fed(backend, [1] * 16, [16])
        for position in range(16, 100):
            backend.step([1], [position], [0], "token")
        # the prompt; the first single token; 65 rows in use
        assert Counting.bound == 3
        assert backend._cache.values is cache
        assert cache.__array_interface__["data"] == address


def test_the_graph_sees_whole_buckets_of_the_rows_in_use():
    with OrtBackend(Bundle.open(bundles.ROPE), 1) as backend:
        seen = []
        for position in range(100):
            backend.step([1], [position], [0], "token")
            seen.append(backend._bound[2])
        assert seen == [64] * 65 + [128] * 35


def test_a_closed_backend_says_so(bundle):
    with open_backend(bundle, threads=1) as backend:
        backend.step([1], [0], [0])
    for call in (
        lambda: backend.step([1], [0], [0]),
        lambda: backend.truncate(0),
        lambda: backend.read_rows(0, 0),
    ):
        with pytest.raises(EdgeformerError) as caught:
            call()
        assert "closed" in str(caught.value)
    backend.close()


def test_a_nan_is_an_error_and_never_a_token(tmp_path):
    path = bundles.copied(bundles.ROPE, tmp_path)
    weights = bytearray(bundles.content_of(path, "weights.bin"))
    weights[0:16384] = struct.pack("<f", float("nan")) * 4096
    bundles.replace_file(path, "weights.bin", bytes(weights))
    with open_backend(Bundle.open(path)) as backend:
        with pytest.raises(EdgeformerError) as caught:
            backend.step([1, 2, 3], range(3), [2], "token")
        assert "nan" in str(caught.value)
        assert backend.cached == 0


def test_a_bundle_for_a_newer_onnxruntime_is_refused():
    with pytest.raises(EdgeformerError) as caught:
        open_backend(bundles.opened(bundles.ROPE, min_onnxruntime="99.1"))
    assert "99.1" in str(caught.value)
    open_backend(bundles.opened(bundles.ROPE, min_onnxruntime="1.9")).close()


def test_a_graph_of_another_model_is_refused(tmp_path):
    path = bundles.copied(bundles.ROPE, tmp_path)
    other = bundles.content_of(bundles.LEARNED, "prefill.onnx")
    bundles.replace_file(path, "prefill.onnx", other)
    with pytest.raises(BundleError) as caught:
        open_backend(Bundle.open(path))
    assert "prefill.onnx" in str(caught.value) or "manifest" in str(caught.value)


def test_backends_and_threads_are_chosen_by_name_and_number(bundle):
    with open_backend(bundle, "auto", threads=1) as backend:
        assert (backend.name, backend.threads) == ("ort", 1)
        assert backend.reason
    for name, threads, named in [
        ("trt", None, "TensorRT"),
        ("cuda", None, "auto, ort, trt"),
        ("ort", 0, "an integer from 1 to"),
        ("ort", 1.5, "an integer from 1 to"),
        ("ort", 5000, "this process may run on"),
    ]:
        with pytest.raises(EdgeformerError) as caught:
            open_backend(bundle, name, threads)
        assert named in str(caught.value)
