"""TrtBackend through real bindings and real pycuda computes what ONNX Runtime alone computes."""

import numpy as np
import pytest

import edgeformer
from edgeformer.__main__ import main
from edgeformer.backends import open_backend
from edgeformer.backends.ort import OrtBackend
from edgeformer.bundle import Bundle
from edgeformer.errors import EdgeformerError
from edgeformer.generation.golden import golden_mismatches
from edgeformer.model import Model
from tests import bundles
from tests.standin.arithmetic import add_engines, execute

# Each shape of engines that a builder may choose: layout, sizes of the cache, tokens of a chunk.
SHAPES = {
    "split": {},
    "shared": {"layout": "shared"},
    "buckets": {"past_rows": [64, 128]},
    "shared-buckets": {"layout": "shared", "past_rows": [64, 100]},
    "fixed-chunk": {"tokens": (16, 16), "rows": (1, 1)},
    "fixed-rows": {"rows": (8, 8)},
}


@pytest.fixture(autouse=True)
def arithmetic(standin):
    standin.set_executor(execute)


def opened(source, folder, cuda_graph=True, **engines):
    """A copy of a bundle with engines, opened as users open it; and the bundle."""
    path = bundles.copied(source, folder)
    add_engines(path, **engines)
    bundle = Bundle.open(path)
    return open_backend(bundle, "trt", cuda_graph=cuda_graph), bundle


def close(found, wanted):
    """The project's tolerance between two computations of logits."""
    return np.all(np.abs(found - wanted) <= 1e-4 * np.maximum(1, np.abs(wanted)))


def ids_of(bundle, count):
    """Token ids that no run would give, so that no cached row repeats another."""
    return [(7 * n * n + 3 * n + 1) % bundle.manifest.model["vocab_size"] for n in range(count)]


@pytest.mark.parametrize("source", bundles.BOTH)
@pytest.mark.parametrize("layout", ["split", "shared"])
@pytest.mark.parametrize("cuda_graph", [True, False])
def test_golden_tokens_twice_over(source, layout, cuda_graph, tmp_path, standin):
    launches = standin.count("launches")
    backend, bundle = opened(source, tmp_path, cuda_graph, layout=layout)
    with backend:
        assert golden_mismatches(backend, bundle.manifest) == []
        assert golden_mismatches(backend, bundle.manifest) == []
    assert (standin.count("launches") > launches) == cuda_graph
    assert ("CUDA graph: on" in backend.reason) == cuda_graph
    assert ("CUDA graph: off" in backend.reason) != cuda_graph


@pytest.mark.parametrize("shape", sorted(SHAPES))
def test_every_step_to_the_last_row_gives_the_logits_of_the_cpu(shape, tmp_path):
    backend, bundle = opened(bundles.ROPE, tmp_path, **SHAPES[shape])
    capacity = bundle.manifest.capacity
    ids = ids_of(bundle, capacity)
    with backend, OrtBackend(bundle) as cpu:
        position = 0
        for count in [16, 5, 1, 1, 1, 16, 1] + [1] * (capacity - 41):
            part = ids[position : position + count]
            at = range(position, position + count)
            wanted = cpu.step(part, at, [count - 1]).logits
            assert close(backend.step(part, at, [count - 1]).logits, wanted), position
            position += count
        assert backend.cached == cpu.cached == capacity
        with pytest.raises(EdgeformerError, match="100 rows of 100, 1 more do not fit"):
            backend.step([1], [100], [0])


def test_a_chunk_equals_its_tokens_one_at_a_time(tmp_path):
    backend, bundle = opened(bundles.ROPE, tmp_path)
    ids = ids_of(bundle, 16)
    with backend:
        at_once = backend.step(ids, range(16), range(16)).logits
        backend.truncate(0)
        one_by_one = [backend.step([ids[n]], [n], [0]).logits[0] for n in range(16)]
    assert at_once.shape == (16, bundle.manifest.model["vocab_size"])
    assert close(at_once, np.array(one_by_one))


@pytest.mark.parametrize("shape", ["split", "fixed-chunk", "shared-buckets"])
def test_padding_anywhere_in_a_chunk_is_not_kept(shape, tmp_path):
    backend, bundle = opened(bundles.ROPE, tmp_path, **SHAPES[shape])
    ids = ids_of(bundle, 8)
    with backend, OrtBackend(bundle) as cpu:
        padded = [5, *ids[:3], 5, 5, *ids[3:5], 5], [-1, 0, 1, 2, -1, -1, 3, 4, -1]
        for runs in (backend, cpu):
            runs.step(*padded, rows=[7])
        assert backend.cached == 5
        kept, wanted = backend.read_rows(0, 5), cpu.read_rows(0, 5)
        assert kept.positions.tolist() == [0, 1, 2, 3, 4]
        assert close(kept.values, wanted.values)
        assert close(*(runs.step([ids[5]], [5], [0]).logits for runs in (backend, cpu)))


def test_truncated_and_dropped_rows_are_seen_no_more(tmp_path):
    backend, bundle = opened(bundles.ROPE, tmp_path)
    ids = ids_of(bundle, 60)
    with backend, OrtBackend(bundle) as cpu:
        for runs in (backend, cpu):
            for start in range(0, 48, 16):
                runs.step(ids[start : start + 16], range(start, start + 16), [0])
            runs.truncate(40)
            runs.drop(3, 10)
            assert runs.cached == 33
        kept, wanted = backend.read_rows(0, 33), cpu.read_rows(0, 33)
        assert kept.positions.tolist() == wanted.positions.tolist()
        assert close(kept.values, wanted.values)
        for n in range(40, 50):
            assert close(*(runs.step([ids[n]], [n], [0]).logits for runs in (backend, cpu)))


def test_truncate_waits_for_nothing_and_copies_one_thing(tmp_path, standin):
    backend, bundle = opened(bundles.ROPE, tmp_path)
    with backend:
        backend.step(ids_of(bundle, 16), range(16), [0])
        before = standin.count("synchronizes"), standin.count("transfers")
        backend.truncate(4)
        after = standin.count("synchronizes"), standin.count("transfers")
    assert (after[0] - before[0], after[1] - before[1]) == (0, 1)


def test_rows_written_back_continue_as_if_never_gone(tmp_path):
    backend, bundle = opened(bundles.ROPE, tmp_path)
    ids = ids_of(bundle, 30)
    with backend:
        backend.step(ids[:16], range(16), [0])
        backend.step(ids[16:25], range(16, 25), [0])
        wanted = backend.step([ids[25]], [25], [0]).logits
        saved = backend.read_rows(0, 25)
        backend.truncate(0)
        backend.step(ids[5:9], range(4), [0])
        backend.truncate(0)
        backend.write_rows(saved)
        assert np.array_equal(backend.step([ids[25]], [25], [0]).logits, wanted)


def test_tokens_of_the_rows_are_known_whatever_was_done_to_them(tmp_path):
    backend, bundle = opened(bundles.ROPE, tmp_path)
    ids = ids_of(bundle, 60)

    def known(backend):
        return [row[0] for row in backend.held]

    with backend, OrtBackend(bundle) as cpu:
        for runs in (backend, cpu):
            runs.step(ids[:16], range(16), [0])
            runs.step([ids[16]], [16], [0])
            assert known(runs) == ids[:17]
            saved = runs.read_rows(10, 14)
            runs.truncate(10)
            assert known(runs) == ids[:10]
            with pytest.raises(EdgeformerError):
                runs.step([1], [500], [0])
            runs.write_rows(saved, ids[10:14])
            runs.step(ids[14:16], [14, 15], [0])
            assert known(runs) == ids[:16]
        assert backend.held == cpu.held
        for runs in (backend, cpu):
            runs.step([5, ids[16]], [-1, 16], [0])  # behind padding they are not told
            assert (known(runs), runs.cached) == (ids[:16], 17)
            runs.drop(3, 10)
            assert known(runs) == ids[:3]
            runs.truncate(3)
            runs.write_rows(saved)
            runs.step([1], [14], [0])
            assert known(runs) == ids[:3]


def test_a_ring_goes_on_beyond_the_last_row(tmp_path):
    backend, bundle = opened(bundles.RING, tmp_path)
    with edgeformer.load(bundles.RING, "ort", threads=1) as cpu:
        cpu._eos_ids = frozenset()
        wanted = cpu.generate([5, 6, 7], overflow="ring").tokens
    with Model(bundle, backend, None) as model:
        model._eos_ids = frozenset()
        found = model.generate([5, 6, 7], overflow="ring")
    assert (found.tokens, found.finish_reason) == (wanted, "positions")


def test_a_step_waits_once_and_appends_all_layers_in_one_copy(tmp_path, standin):
    backend, _ = opened(bundles.ROPE, tmp_path)
    with backend:
        for n in range(4):
            backend.step([n], [n], [0])
        before = [standin.count(what) for what in ("synchronizes", "transfers", "enqueues")]
        allocated = standin.count("allocations")
        for n in range(4, 14):
            backend.step([n], [n], [0], "token")
        after = [standin.count(what) for what in ("synchronizes", "transfers", "enqueues")]
        # Sent, fetched, rows appended, positions appended; the engine is in the graph.
        assert [b - a for a, b in zip(before, after)] == [10, 40, 0]
        assert standin.count("allocations") == allocated


@pytest.mark.parametrize("layout", ["split", "shared"])
def test_a_half_precision_cache_stays_near_the_cpu(layout, tmp_path):
    backend, bundle = opened(bundles.ROPE, tmp_path, layout=layout, cache_dtype="float16")
    ids = ids_of(bundle, 60)
    with backend, OrtBackend(bundle) as cpu:
        for runs in (backend, cpu):
            runs.step(ids[:16], range(16), [0])
        worst = 0
        for n in range(16, 60):
            found, wanted = (runs.step([ids[n]], [n], [0]).logits for runs in (backend, cpu))
            worst = max(worst, float(np.abs(found - wanted).max() / np.abs(wanted).max()))
        rows = backend.read_rows(0, 60).values
    assert 1e-6 < worst < 0.02
    assert np.array_equal(rows, rows.astype(np.float16))


def test_the_library_streams_from_engines_when_there_are_some(tmp_path):
    path = bundles.copied(bundles.ROPE, tmp_path)
    golden = Bundle.open(path).manifest.golden
    with edgeformer.load(path) as model:
        assert model.backend_reason == "ort: the bundle holds no TensorRT engine"
    add_engines(path)
    with edgeformer.load(path) as model:
        assert model.backend_reason.startswith("trt: engines ")
        answer = model.generate(golden.prompt_ids, max_new_tokens=20)
    assert answer.tokens == golden.greedy_ids[:20]
    assert answer.stats.backend == "trt"


def test_the_cuda_graph_can_be_switched_off_where_users_are(tmp_path, standin, capsys):
    path = bundles.copied(bundles.ROPE, tmp_path)
    add_engines(path)
    launches = standin.count("launches")
    with edgeformer.load(path, cuda_graph=False) as model:
        assert model.backend_reason.endswith("CUDA graph: off")
        model.generate([1, 2, 3], max_new_tokens=8)
    assert (
        main(["generate", path, "1 2 3", "--ids", "--max-new-tokens", "8", "--no-cuda-graph"]) == 0
    )
    assert "CUDA graph: off" in capsys.readouterr().err
    assert standin.count("launches") == launches
    with edgeformer.load(path) as model:
        assert model.backend_reason.endswith("CUDA graph: on")
        model.generate([1, 2, 3], max_new_tokens=8)
    assert standin.count("launches") > launches


def test_a_set_of_engines_is_opened_by_its_key_though_a_newer_one_is_there(tmp_path):
    path = bundles.copied(bundles.ROPE, tmp_path)
    old, new = add_engines(path), add_engines(path, layout="shared")
    bundle = Bundle.open(path)
    for wanted in (old, new):
        with open_backend(bundle, "trt", engines=wanted.key) as backend:
            assert f"engines {wanted.key}, fp32, {wanted.layout}" in backend.reason
            assert golden_mismatches(backend, bundle.manifest) == []
    with pytest.raises(EdgeformerError, match="holds no engines 'nowhere'"):
        open_backend(bundle, "trt", engines="nowhere")
    with pytest.raises(EdgeformerError, match="open them with trt"):
        open_backend(bundle, engines=old.key)
