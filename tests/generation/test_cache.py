"""Cached rows that a prompt reuses: which, how many, with which bits, and after which accidents."""

import sys

import numpy as np
import onnxruntime
import pytest

import edgeformer
from edgeformer import EdgeformerError
from tests import bundles

FUSED_RUNS = int(onnxruntime.__version__.split(".")[1]) >= 24
PATHS = [bundles.ROPE, bundles.INT8] + [bundles.FUSED] * FUSED_RUNS
CHUNK = 16  # of all these
PROMPT = [(7 * i * i + 3 * i) % 270 + 5 for i in range(40)]


class Watched:
    """Tokens and positions of every step that a backend makes."""

    def __init__(self, model):
        self.model = model
        self.steps = []
        self._step = model.backend.step
        model.backend.step = self.step

    def step(self, token_ids, positions, rows, want):
        output = self._step(token_ids, positions, rows, want)
        self.steps.append((list(token_ids), list(positions)))
        return output

    def fed(self, prompt, **asked):
        """The positions that one token behind this prompt computes."""
        del self.steps[:]
        list(self.model.stream(prompt, max_new_tokens=1, **asked))
        return [position for _, positions in self.steps for position in positions]

    def stop(self):
        self.model.backend.step = self._step


@pytest.fixture(params=PATHS)
def model(request):
    with edgeformer.load(request.param, threads=1) as loaded:
        loaded._eos_ids = frozenset()
        yield loaded


@pytest.fixture
def watched(model):
    return Watched(model)


def held(model):
    """What the backend says of its rows, checked against a computation of the same ids."""
    ids = model.cached_ids
    assert len(ids) <= model.backend.cached
    return ids


def rows_of(model, count):
    return model.backend.read_rows(0, count).values


def test_a_prompt_that_goes_on_computes_only_what_is_new(model, watched):
    first = model.generate(PROMPT[:20], max_new_tokens=10)
    longer = PROMPT[:20] + list(first.tokens[:9])
    assert held(model) == longer  # the last token has no row
    assert watched.fed(longer + [9, 8, 7], reuse=True) == list(range(29, 32))
    assert watched.fed(longer + [9, 8, 7], reuse=True) == [31]  # its logits are needed
    assert watched.fed(longer[:12], reuse=True) == [11]
    assert held(model) == longer[:12]
    assert watched.fed([1] + longer, reuse=True) == list(range(30))
    assert watched.fed([1] + longer, reuse=False) == list(range(30))


def test_stats_tell_how_much_of_a_prompt_was_reused(model):
    assert model.generate(PROMPT, max_new_tokens=1).stats.reused_tokens == 0
    stats = model.generate(PROMPT[:30] + [1], max_new_tokens=1, reuse=True).stats
    assert (stats.prompt_tokens, stats.reused_tokens) == (31, 30)
    assert "31 prompt + 1 new tokens, 30 of the prompt reused" in str(stats)
    assert "reused" not in str(model.generate([1], max_new_tokens=1).stats)


def test_exact_reuse_takes_whole_chunks_and_gives_the_very_bits(model, watched):
    for count, other, kept in [(40, 40, 32), (40, 33, 32), (33, 20, 16), (32, 32, 16), (16, 16, 0)]:
        model.generate(PROMPT[:count], max_new_tokens=3, reuse=False)
        assert watched.fed(PROMPT[:other]) == list(range(kept, other))
        reused = rows_of(model, other)
        model.generate(PROMPT[:other], max_new_tokens=1, reuse=False)
        assert (reused == rows_of(model, other)).all()


def test_exact_reuse_takes_no_row_that_was_computed_otherwise(model, watched):
    backend = model.backend
    for sizes in ([1] * 40, [3, 16, 16], [8, 8, 16, 8]):
        model.truncate(0)
        for size in sizes:
            at = backend.cached
            backend.step(PROMPT[at : at + size], range(at, at + size), [0], "token")
        assert held(model) == PROMPT[: sum(sizes)]
        assert watched.fed(PROMPT) == list(range(40))
    # rows 0 to 7 are of another step than 8 to 23, though both had a whole chunk
    for at in (0, 8):
        model.truncate(at)
        backend.step(PROMPT[at : at + 16], range(at, at + 16), [0], "token")
    assert held(model) == PROMPT[:24]
    assert watched.fed(PROMPT) == list(range(40))


@pytest.mark.parametrize("path", PATHS)
def test_by_default_what_ran_before_changes_no_bit(path):
    def logits_of(model):
        model._eos_ids = frozenset()
        steps, step = [], model.backend.step

        def noted(token_ids, positions, rows, want):
            output = step(token_ids, positions, rows, "logits")
            steps.append(output.logits[0])
            return output

        model.backend.step = noted
        list(model.stream(PROMPT, max_new_tokens=4, temperature=0.7, seed=1))
        model.backend.step = step
        return np.stack(steps[-4:])

    with edgeformer.load(path, threads=1) as fresh:
        wanted = logits_of(fresh)
    with edgeformer.load(path, threads=1) as used:
        used.generate(PROMPT[:36], max_new_tokens=20)
        assert (logits_of(used) == wanted).all()
        used.generate(PROMPT[:17] + [9] * 9, max_new_tokens=20)
        assert (logits_of(used) == wanted).all()
        assert (logits_of(used) == wanted).all()


def test_truncating_by_hand_is_known(model, watched):
    model.generate(PROMPT, max_new_tokens=5, reuse=False)
    model.truncate(np.int64(10))
    assert held(model) == PROMPT[:10]
    assert watched.fed(PROMPT, reuse=True) == list(range(10, 40))
    model.backend.truncate(10)
    model.backend.step([1, 2, 3], range(10, 13), [0], "token")
    assert held(model) == PROMPT[:10] + [1, 2, 3]
    assert watched.fed(PROMPT, reuse=True) == list(range(10, 40))


@pytest.mark.parametrize("rows", [1.5, None, "2", True, -1, 10**6])
def test_truncate_takes_a_number_of_rows_that_are_there(model, rows):
    with pytest.raises(EdgeformerError, match="row"):
        model.truncate(rows)


def test_truncate_ends_the_stream_that_is_open(model):
    stream = model.stream(PROMPT)
    next(stream)
    model.truncate(5)
    with pytest.raises(EdgeformerError):
        next(stream)
    with pytest.raises(EdgeformerError, match="rows 0 to 6 are not in the 5 in use"):
        model.truncate(6)


@pytest.mark.parametrize("at", [0, 1, 2, 5])
@pytest.mark.parametrize("late", [False, True], ids=["before", "after"])
def test_rows_are_known_after_an_interrupt_around_any_step(model, at, late):
    step, made = model.backend.step, []

    def interrupted(*arguments):
        if len(made) == at and not late:
            raise KeyboardInterrupt
        output = step(*arguments)
        made.append(arguments[0])
        if len(made) > at:
            raise KeyboardInterrupt
        return output

    model.generate([9, 8, 7, 6], max_new_tokens=8, reuse=False)
    model.backend.step = interrupted
    with pytest.raises(KeyboardInterrupt):
        list(model.stream(PROMPT, max_new_tokens=9))
    model.backend.step = step
    fed = [token for part in made for token in part]
    assert held(model) == fed
    assert model.backend.cached == len(fed)


def test_a_step_that_fails_leaves_the_rows_before_it(model):
    model.generate(PROMPT, max_new_tokens=1, reuse=False)
    for ids, positions in [([1, 999], [40, 41]), ([1], [500]), ([], [])]:
        with pytest.raises(EdgeformerError):
            model.backend.step(ids, positions, [0])
        assert held(model) == PROMPT


@pytest.mark.parametrize("path", [bundles.ROPE] + [bundles.FUSED] * FUSED_RUNS)
def test_interrupts_inside_a_step_never_leave_a_wrong_note(path):
    """At each line of the backend's own code, as Ctrl-C comes; then the rows are as they say."""
    with edgeformer.load(path, threads=1) as model:
        backend = model.backend

        def calls():
            backend.truncate(9)
            backend.step([1, 2, 3], range(9, 12), [0], "token")
            if "drop" in backend.abilities:
                backend.drop(4, 6)
            backend.truncate(3)
            backend.write_rows(saved, [7, 8])
            backend.step([5], [5], [0], "token")
            backend.step([6], [6], [0], "token")

        for line in range(400):
            backend.truncate(0)
            backend.step(PROMPT[:12], range(12), [0], "token")
            saved = backend.read_rows(3, 5)
            left = [line]

            def tracer(frame, event, _, left=left):
                if "backends" in frame.f_code.co_filename and event == "line":
                    left[0] -= 1
                    if left[0] < 0:
                        raise KeyboardInterrupt
                return tracer

            sys.settrace(tracer)
            try:
                calls()
            except KeyboardInterrupt:
                pass
            finally:
                sys.settrace(None)
            ids = model.cached_ids
            positions = backend.read_rows(0, len(ids)).positions
            assert positions.tolist() == list(range(len(ids)))
            known = PROMPT[:9] + [1, 2, 3]
            written = PROMPT[:3] + [7, 8, 5, 6]
            assert ids in (PROMPT[: len(ids)], known[: len(ids)], written[: len(ids)])
            if ids == written[: len(ids)] and len(ids) > 3:
                kept = backend.read_rows(3, min(5, len(ids))).values
                assert (kept == saved.values[:, : kept.shape[1]]).all()
            if left[0] >= 0:
                assert ids == written
                return
        raise AssertionError("the calls did not end")


def test_rows_at_other_places_are_not_reused(watched):
    backend = watched.model.backend
    if "drop" not in backend.abilities:
        return
    watched.model.generate(PROMPT, max_new_tokens=1, reuse=False)
    backend.drop(10, 12)
    assert held(watched.model) == PROMPT[:10]
    backend.step([9], [40], [0], "token")  # behind rows that nobody knows
    assert held(watched.model) == PROMPT[:10]
    backend.truncate(4)
    backend.step([1, 2, 3], [-1, 4, 5], [0], "token")
    assert held(watched.model) == PROMPT[:4]


def test_written_rows_are_known_by_the_tokens_that_came_with_them(model, watched):
    model.generate(PROMPT, max_new_tokens=1, reuse=False)
    rows = model.backend.read_rows(0, 30)
    model.truncate(0)
    model.backend.write_rows(rows)
    assert (held(model), model.backend.cached) == ([], 30)
    model.backend.step([9], [30], [0], "token")
    assert (held(model), model.backend.cached) == ([], 31)
    model.truncate(0)
    model.backend.write_rows(rows, PROMPT[:30])
    assert held(model) == PROMPT[:30]
    assert watched.fed(PROMPT) == list(range(30, 40))  # they were put there to be used


@pytest.mark.parametrize("wrong", ["some", 2, None, "ALL"])
def test_reuse_is_one_of_three(model, wrong):
    with pytest.raises(EdgeformerError, match="exact, all, none"):
        model.stream(PROMPT, reuse=wrong)
