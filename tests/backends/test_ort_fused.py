"""The backend of dialect `ort` on real tiny bundles: its cache in place, its limits, its errors."""

import struct

import numpy as np
import onnxruntime
import pytest

from edgeformer.backends import Rows, open_backend
from edgeformer.bundle import Bundle
from edgeformer.errors import EdgeformerError
from edgeformer.generation.golden import golden_run
from edgeformer.model import load
from tests import bundles
from tests.backends.test_ort import assert_close, fed, golden_text

OLD = int(onnxruntime.__version__.split(".")[1]) < 24
runs = pytest.mark.skipif(OLD, reason="this onnxruntime has not all of the operators")
FUSED = (bundles.FUSED, bundles.FUSED_LEARNED)


@pytest.fixture(params=FUSED)
def bundle(request):
    return Bundle.open(request.param)


@pytest.fixture
def backend(bundle):
    with open_backend(bundle, "ort", threads=1) as opened:
        yield opened


def test_an_onnxruntime_without_the_operators_is_refused_with_the_way_out(bundle):
    if OLD:
        with pytest.raises(EdgeformerError, match=r"1\.24 or newer.*--dialect portable in fp32"):
            open_backend(bundle)
    else:
        open_backend(bundle).close()
    with pytest.raises(EdgeformerError, match=r"99\.1"):
        open_backend(bundles.opened(bundle.path, min_onnxruntime="99.1"))


@runs
def test_one_graph_and_its_weights_once(bundle):
    assert list(bundle.manifest.graphs) == ["step"]
    assert sorted(bundle.manifest.files) == ["step.onnx", "tokenizer.json", "weights.bin"]
    assert bundle.manifest.dialect == "ort" and bundle.manifest.target == "cpu"


@runs
def test_greedy_steps_give_the_golden_tokens(bundle, backend):
    golden = bundle.manifest.golden
    ids = list(golden.prompt_ids)
    chunk = bundle.manifest.chunk
    for start in range(0, len(ids), chunk):
        part = ids[start : start + chunk]
        at = range(start, start + len(part))
        found = backend.step(part, at, [len(part) - 1], "token").tokens
    while len(found) < len(golden.greedy_ids):
        found += backend.step([found[-1]], [backend.cached], [0], "token").tokens
    assert found == list(golden.greedy_ids)
    run = golden_run(backend, bundle.manifest)
    assert run.mismatches == [] and run.largest_logit_error < 1e-4


@runs
def test_the_learned_bundle_gives_the_logits_of_the_portable_one():
    found = []
    for path in (bundles.FUSED_LEARNED, bundles.LEARNED):
        with open_backend(Bundle.open(path)) as opened:
            found.append(fed(opened, golden_text(Bundle.open(path))[:32], [5, 1, 16]))
    assert_close(*found)


@runs
def test_chunks_of_any_size_equal_one_token_at_a_time(bundle, backend):
    ids = golden_text(bundle)[: bundle.manifest.capacity]
    wanted = fed(backend, ids, [1])
    assert np.ptp(wanted) > 1
    for sizes in ([16], [7], [1, 16, 3], [13, 1, 1]):
        backend.truncate(0)
        assert_close(fed(backend, ids, sizes), wanted)
        assert backend.cached == len(ids)


@runs
def test_a_token_is_the_largest_logit_of_its_row(bundle, backend):
    ids = golden_text(bundle)[:9]
    tokens = backend.step(ids, range(9), range(9), "token").tokens
    backend.truncate(0)
    logits = backend.step(ids, range(9), range(9)).logits
    assert logits.shape == (9, bundle.manifest.model["vocab_size"])
    assert logits.dtype == np.float32
    assert tokens == logits.argmax(axis=1).tolist()
    backend.truncate(0)
    some = backend.step(ids, range(9), [8, 2, 2])
    assert_close(some.logits, logits[[8, 2, 2]])
    kept = some.logits.copy()
    backend.step([1], [9], [0])
    assert (some.logits == kept).all()  # the caller's own


@runs
def test_truncated_rows_are_never_seen_again(bundle, backend):
    ids = golden_text(bundle)
    wanted = fed(backend, ids[:12], [5])
    backend.truncate(4)
    backend.step([7] * 6, range(4, 10), [0])  # rejected drafts
    backend.truncate(4)
    assert_close(backend.step(ids[4:12], range(4, 12), range(8)).logits, wanted[4:12])
    backend.truncate(0)
    fresh = backend.step(ids[:3], range(3), [2]).logits
    with open_backend(bundle, threads=1) as other:
        assert (other.step(ids[:3], range(3), [2]).logits == fresh).all()


@runs
def test_saved_rows_continue_in_another_backend_and_in_a_portable_one():
    bundle = Bundle.open(bundles.FUSED_LEARNED)
    ids = golden_text(bundle)[:20]
    with open_backend(bundle, threads=1) as backend:
        fed(backend, ids, [10])
        saved = backend.read_rows(0, 20)
        wanted = backend.step([ids[3]], [20], [0]).logits
        backend.truncate(0)
        fed(backend, [1] * 20, [10])  # what was saved is a copy
        backend.truncate(0)
        backend.write_rows(saved)
        assert (backend.step([ids[3]], [20], [0]).logits == wanted).all()
    with open_backend(Bundle.open(bundles.LEARNED), threads=1) as portable:
        portable.write_rows(saved)
        assert_close(portable.step([ids[3]], [20], [0]).logits, wanted)


@runs
def test_rows_that_do_not_follow_or_have_another_shape_are_refused(backend):
    width = backend.step([1, 2], range(2), [1]) and backend.read_rows(0, 2).values.shape
    with pytest.raises(EdgeformerError, match="the next positions are 2 to 3"):
        backend.write_rows(Rows(np.array([5, 6], np.int32), np.zeros(width, np.float32)))
    with pytest.raises(EdgeformerError, match=r"\(1, 2, 3\)"):
        backend.write_rows(Rows(np.array([2, 3], np.int32), np.zeros((1, 2, 3), np.float32)))
    for start, stop in ((0, 4), (-1, 2), (2, 1)):
        with pytest.raises(EdgeformerError, match="2 in use"):
            backend.read_rows(start, stop)
    with pytest.raises(EdgeformerError, match="2 in use"):
        backend.truncate(3)
    assert backend.cached == 2


@runs
@pytest.mark.parametrize("positions", [[0], [2], [-1]])
def test_a_position_out_of_order_is_refused(backend, positions):
    backend.step([3], [0], [0])
    with pytest.raises(EdgeformerError, match="the next positions are 1 to 1"):
        backend.step([1], positions, [0])
    assert backend.cached == 1
    assert "drop" not in backend.abilities and "rows" in backend.abilities


@runs
def test_an_id_that_is_no_integer_of_python_is_taken_as_before(bundle, backend):
    wanted = backend.step([7], [0], [0], "token").tokens
    for token in (np.int32(7), np.int64(7)):
        backend.truncate(0)
        assert backend.step([token], [0], [0], "token").tokens == wanted


@runs
def test_the_whole_capacity_can_be_used_and_no_more(bundle, backend):
    capacity = bundle.manifest.capacity
    fed(backend, [1] * capacity, [8])
    assert backend.cached == capacity
    with pytest.raises(EdgeformerError, match=f"{capacity} rows of {capacity}|1 to 31"):
        backend.step([1], [capacity], [0])
    assert backend.cached == capacity
    rows = backend.read_rows(0, 1)
    with pytest.raises(EdgeformerError, match=f"{capacity} rows of {capacity}"):
        backend.write_rows(rows)


@runs
def test_a_step_binds_nothing_while_its_counts_stay_the_same(bundle, backend):
    names = []
    bind = backend._bind
    backend._bind = lambda name, *rest: (names.append(name), bind(name, *rest))
    fed(backend, [1] * 8, [8])
    backend.step([1], [8], [0], "token")
    before = len(names)
    for position in range(9, 24):
        backend.step([1], [position], [0], "token")
    counted = ["positions"] * (bundle.manifest.name == "tiny-fused-learned")
    assert names[:before] == ["token_ids", *counted, "rows", "logits", "tokens"] * 2
    assert len(names) == before


@runs
def test_a_nan_is_an_error_and_never_a_token(tmp_path):
    path = bundles.copied(bundles.FUSED, tmp_path)
    weights = bytearray(bundles.content_of(path, "weights.bin"))
    weights[0:16384] = struct.pack("<f", float("nan")) * 4096
    bundles.replace_file(path, "weights.bin", bytes(weights))
    with open_backend(Bundle.open(path)) as backend:
        with pytest.raises(EdgeformerError, match="nan"):
            backend.step([1, 2, 3], range(3), [2], "token")
        assert backend.cached == 0


@runs
def test_a_closed_backend_says_so(bundle):
    with open_backend(bundle, threads=1) as backend:
        backend.step([1], [0], [0])
    for call in (
        lambda: backend.step([1], [0], [0]),
        lambda: backend.truncate(0),
        lambda: backend.read_rows(0, 0),
    ):
        with pytest.raises(EdgeformerError, match="closed"):
            call()
    backend.close()


@runs
def test_a_graph_with_other_tensors_than_the_manifest_is_refused(tmp_path):
    path = bundles.copied(bundles.FUSED, tmp_path)
    other = bundles.content_of(bundles.FUSED_LEARNED, "step.onnx")
    bundles.replace_file(path, "step.onnx", other)
    with pytest.raises(EdgeformerError, match=r"manifest|step\.onnx"):
        open_backend(Bundle.open(path))


@runs
def test_the_same_text_from_one_thread_and_two_and_from_a_second_stream():
    texts = []
    for threads in (1, 2):
        with load(bundles.FUSED, threads=threads) as model:
            for _ in range(2):
                texts.append(model.generate("the other", max_new_tokens=40).tokens)
    assert len(set(texts)) == 1 and len(set(texts[0])) > 8
