"""What ends a stream from outside: deadlines, close, and cancels from another thread."""

import threading
from time import perf_counter

import pytest

import edgeformer
from edgeformer import EdgeformerError, SamplingParams
from edgeformer.generation.stream import Stream
from tests import bundles
from tests.scripted import ScriptedBackend


class Waiting(ScriptedBackend):
    """Its steps from the `late`-th on wait until they are let go: the middle of a step, to hold."""

    def __init__(self, prompt, tokens, late):
        super().__init__(prompt, tokens)
        self.late = late
        self.entered = threading.Event()
        self.let_go = threading.Event()

    def step(self, *arguments):
        if len(self.calls) + 1 >= self.late:
            self.entered.set()
            assert self.let_go.wait(10)
        return super().step(*arguments)


class Slow(ScriptedBackend):
    """Each of its steps takes 10 ms."""

    def step(self, *arguments):
        end = perf_counter() + 0.01
        while perf_counter() < end:
            pass
        return super().step(*arguments)


def streamed(backend, chunk=4, **asked):
    params = SamplingParams().changed(asked)
    return Stream(backend, [5] * backend.prompt, params, frozenset([0]), 2000, chunk)


def read_in_a_thread(stream):
    steps = []
    thread = threading.Thread(target=lambda: steps.extend(stream))
    thread.start()
    return thread, steps


@pytest.mark.parametrize("way", ["cancel", "close"])
def test_a_cancel_in_a_step_makes_that_step_the_last_one(way):
    backend = Waiting(3, [7, 8, 9], late=3)
    stream = streamed(backend)
    thread, steps = read_in_a_thread(stream)
    assert backend.entered.wait(10)
    getattr(stream, way)()
    assert stream.finish_reason is None  # the step is still computed
    backend.let_go.set()
    thread.join(10)
    assert [step.token for step in steps] == [7, 8, 9]
    assert [step.finish_reason for step in steps] == [None, None, "cancelled"]
    assert steps[-1].stats.new_tokens == 3
    assert (stream.finish_reason, len(backend.calls)) == ("cancelled", 3)


def test_a_cancel_at_the_prompt_ends_before_the_next_chunk():
    backend = Waiting(40, [7], late=2)
    stream = streamed(backend)
    thread, steps = read_in_a_thread(stream)
    assert backend.entered.wait(10)
    stream.cancel()
    backend.let_go.set()
    thread.join(10)
    assert (steps, stream.finish_reason) == ([], "cancelled")
    assert len(backend.calls) == 2  # of 10 chunks
    assert stream.stats.new_tokens == 0
    assert stream.stats.first_token_s is None


def test_a_cancel_between_two_steps_computes_nothing_more():
    stream = streamed(ScriptedBackend(3, [7]))
    next(stream)
    thread = threading.Thread(target=stream.cancel)
    thread.start()
    thread.join()
    assert list(stream) == []
    assert (stream.finish_reason, len(stream._backend.calls)) == ("cancelled", 1)


def test_a_cancel_before_the_first_step_leaves_the_cache_alone():
    stream = streamed(ScriptedBackend(3, [7]))
    stream.cancel()
    assert list(stream) == []
    assert (stream.finish_reason, stream._backend.owner) == ("cancelled", None)


def test_a_cancel_after_the_end_keeps_the_reason():
    stream = streamed(ScriptedBackend(3, [0]))
    list(stream)
    stream.cancel()
    stream.close()
    assert (list(stream), stream.finish_reason) == ([], "stop")


def test_a_deadline_ends_an_endless_stream_at_its_next_token():
    stream = streamed(Slow(3, [7]), deadline_s=0.1)
    started = perf_counter()
    steps = list(stream)
    assert perf_counter() - started >= 0.1
    assert {step.finish_reason for step in steps[:-1]} == {None}
    assert steps[-1].finish_reason == stream.finish_reason == "deadline"
    assert 1 < len(steps) <= 11


def test_a_deadline_holds_for_the_prompt_and_then_no_token_comes():
    stream = streamed(Slow(400, [7]), deadline_s=0.05)
    assert list(stream) == []
    assert stream.finish_reason == "deadline"
    assert len(stream._backend.calls) <= 6  # of 100 chunks


def test_a_deadline_runs_from_the_first_step_and_counts_the_callers_time():
    stream = streamed(ScriptedBackend(3, [7]), deadline_s=0.05)
    idle = perf_counter() + 0.06
    while perf_counter() < idle:
        pass
    assert next(stream).finish_reason is None
    idle = perf_counter() + 0.06
    while perf_counter() < idle:
        pass
    assert next(stream).finish_reason == "deadline"


def test_a_limit_and_an_end_token_go_before_a_deadline():
    assert [step.finish_reason for step in streamed(Slow(3, [0]), deadline_s=1e-9)] == []
    late = Waiting(3, [0], late=9)
    stream = streamed(late, deadline_s=1e9)
    assert [step.finish_reason for step in stream] == ["stop"]


@pytest.mark.parametrize("kind", [EdgeformerError, RuntimeError, MemoryError, SystemExit])
def test_whatever_a_step_raises_ends_the_stream_as_an_error(kind):
    class Broken(ScriptedBackend):
        def step(self, *arguments):
            if len(self.calls) == 2:
                raise kind("the device is gone")
            return super().step(*arguments)

    stream = streamed(Broken(3, [7]))
    next(stream)
    next(stream)
    with pytest.raises(kind):
        next(stream)
    assert (list(stream), stream.finish_reason) == ([], "error")
    assert stream.stats.new_tokens == 2


def test_a_model_goes_on_after_a_step_that_broke(monkeypatch):
    with edgeformer.load(bundles.ROPE, threads=1) as model:
        wanted = model.generate("the cat", max_new_tokens=8).tokens
        for draft in ("off", "lookup"):
            step, left = model.backend.step, [3]

            def broken(*arguments, step=step, left=left):
                left[0] -= 1
                if left[0] == 0:
                    raise RuntimeError("no memory")
                return step(*arguments)

            stream = model.stream("the cat", max_new_tokens=8, draft=draft, reuse=False)
            monkeypatch.setattr(model.backend, "step", broken)
            with pytest.raises(RuntimeError):
                list(stream)
            monkeypatch.undo()
            assert stream.finish_reason == "error"
            assert model.generate("the cat", max_new_tokens=8).tokens == wanted


def test_an_answer_whose_deadline_came_at_the_prompt_is_empty():
    with edgeformer.load(bundles.ROPE, threads=1) as model:
        answer = model.generate("the cat", deadline_s=1e-9)
        assert (answer.text, answer.tokens, answer.finish_reason) == ("", (), "deadline")
        assert answer.stats.new_tokens == 0
        assert len(model.generate("the cat", max_new_tokens=3).tokens) == 3


def test_a_cancel_or_a_deadline_ends_drafted_and_endless_answers_too():
    with edgeformer.load(bundles.ROPE, threads=1) as model:
        model._eos_ids = frozenset()
        for asked in ({"draft": "lookup"}, {"overflow": "shift"}):
            stream = model.stream([7, 8, 9] * 6, temperature=0.2, **asked)
            taken = [next(stream) for _ in range(9)]
            stream.cancel()
            assert (list(stream), stream.finish_reason) == ([], "cancelled")
            assert stream.stats.new_tokens == len(taken)
        endless = model.generate([7, 8, 9], overflow="shift", deadline_s=0.3)
        assert endless.finish_reason == "deadline"
        wanted = model.generate("the cat", max_new_tokens=5, reuse=False).tokens
        assert model.generate("the cat", max_new_tokens=5).tokens == wanted
