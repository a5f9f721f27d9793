"""The stream loop, on scripted tokens: what ends it, what it shows, what it costs."""

import os
import statistics
import sys
from time import perf_counter

import numpy as np
import onnxruntime
import pytest

import edgeformer
from edgeformer import EdgeformerError, SamplingParams
from edgeformer.bundle import Bundle
from edgeformer.generation.loop import stream_ids
from edgeformer.generation.stream import Stream
from edgeformer.text import open_tokenizer
from edgeformer.text.byte_letters import LETTER_OF
from tests import bundles
from tests.scripted import ScriptedBackend

EOS = frozenset([0])
FUSED_RUNS = int(onnxruntime.__version__.split(".")[1]) >= 24


@pytest.fixture(scope="module")
def tokenizer():
    return open_tokenizer(Bundle.open(bundles.ROPE))


def streamed(tokens, prompt=3, capacity=100, chunk=16, text=None, **asked):
    backend = ScriptedBackend(prompt, tokens)
    params = SamplingParams().changed(asked)
    return Stream(backend, [5] * prompt, params, EOS, capacity, chunk, text)


def ended(stream):
    """(tokens, text, reason) of a whole stream; only its last step has a reason and stats."""
    steps = list(stream)
    assert all(step.finish_reason is None and step.stats is None for step in steps[:-1])
    assert steps[-1].stats is not None
    assert steps[-1].finish_reason == stream.finish_reason
    text = "".join(step.text for step in steps)
    return [step.token for step in steps], text, steps[-1].finish_reason


def test_an_end_token_ends_the_stream_and_is_its_last_token():
    assert ended(streamed([7, 8, 0, 9])) == ([7, 8, 0], "", "stop")


def test_a_stream_may_be_its_end_token_alone():
    assert ended(streamed([0])) == ([0], "", "stop")


def test_max_new_tokens_ends_the_stream():
    assert ended(streamed([7, 8, 9], max_new_tokens=2)) == ([7, 8], "", "length")
    assert ended(streamed([7], max_new_tokens=1)) == ([7], "", "length")


def test_an_end_token_at_the_limit_is_a_stop():
    assert ended(streamed([7, 0], max_new_tokens=2))[2] == "stop"


@pytest.mark.parametrize("prompt", [1, 7, 9, 10])
def test_a_full_cache_ends_the_stream_after_capacity_minus_prompt_plus_1_tokens(prompt):
    tokens, _, reason = ended(streamed([7], prompt=prompt, capacity=10))
    assert (len(tokens), reason) == (10 - prompt + 1, "capacity")


def test_the_limit_that_comes_first_is_named():
    assert ended(streamed([7], prompt=5, capacity=10, max_new_tokens=5))[2] == "length"
    assert ended(streamed([7], prompt=5, capacity=10, max_new_tokens=6))[2] == "length"
    assert ended(streamed([7], prompt=5, capacity=10, max_new_tokens=7))[2] == "capacity"


def test_the_last_token_is_never_computed():
    stream = streamed([7, 8, 9], prompt=4, capacity=6)
    list(stream)
    assert stream._backend.cached == 6
    assert [call[0] for call in stream._backend.calls] == [[5] * 4, [7], [8]]


def test_a_prompt_longer_than_the_capacity_is_refused_with_both_numbers():
    with pytest.raises(EdgeformerError) as caught:
        streamed([7], prompt=11, capacity=10)
    assert "11" in str(caught.value)
    assert "10" in str(caught.value)
    with pytest.raises(EdgeformerError):
        stream_ids(ScriptedBackend(11, [7]), [5] * 11, SamplingParams(), EOS, 10, 4)


def test_a_prompt_without_tokens_is_refused():
    with pytest.raises(EdgeformerError) as caught:
        streamed([7], prompt=0)
    assert "no tokens" in str(caught.value)


def test_the_prompt_goes_in_chunks_and_every_step_asks_for_one_row():
    backend = ScriptedBackend(10, [7, 8])
    params = SamplingParams(max_new_tokens=2, temperature=1.0, seed=1)
    tokens = list(stream_ids(backend, list(range(10)), params, EOS, 100, 4))
    assert tokens == [(7, None), (8, "length")]
    assert backend.calls == [
        ([0, 1, 2, 3], [0, 1, 2, 3], [3], "token"),
        ([4, 5, 6, 7], [4, 5, 6, 7], [3], "token"),
        ([8, 9], [8, 9], [1], "logits"),
        ([7], [10], [0], "logits"),
    ]


def test_greedy_never_asks_for_logits():
    stream = streamed([7, 8, 0])
    list(stream)
    assert {call[3] for call in stream._backend.calls} == {"token"}


@pytest.mark.parametrize("text", ["café 🙂 雨", "é", "🙂🙂", "plain"])
def test_a_character_over_several_tokens_is_never_shown_broken(tokenizer, text):
    ids = [t for c in text.encode("utf-8") for t in byte_tokens(tokenizer, c)]
    stream = streamed([*ids, 0], text=tokenizer.stream())
    pieces = [step.text for step in stream]
    assert "".join(pieces) == text
    assert not any("\ufffd" in piece for piece in pieces)
    assert pieces.count("") == len(ids) - len(text) + 1  # and the end token


def byte_tokens(tokenizer, byte):
    """The one token that is this byte alone."""
    letter = LETTER_OF[byte]
    return [i for i in range(tokenizer.vocab_size) if tokenizer.token(i) == letter]


def test_a_character_that_stays_incomplete_is_shown_as_such_at_the_end(tokenizer):
    ids = byte_tokens(tokenizer, "é".encode("utf-8")[0])
    for tokens, asked in [([*ids, 0], {}), (ids, {"max_new_tokens": 1})]:
        assert ended(streamed(tokens, text=tokenizer.stream(), **asked))[1] == "\ufffd"


def test_a_stop_string_ends_the_text_before_itself(tokenizer):
    ids = [t for c in b"abc END def" for t in byte_tokens(tokenizer, c)]
    stream = streamed([*ids, 0], text=tokenizer.stream(), stop="END")
    assert ended(stream)[1:] == ("abc ", "stop_string")


def test_an_end_token_that_is_a_word_is_not_shown(tokenizer):
    word = byte_tokens(tokenizer, ord("x"))[0]
    params = SamplingParams(max_new_tokens=9)
    backend = ScriptedBackend(3, [*byte_tokens(tokenizer, ord("a")), word])
    stream = Stream(backend, [5] * 3, params, {word}, 100, 16, tokenizer.stream())
    assert ended(stream)[1:] == ("a", "stop")


def test_what_only_looked_like_a_stop_string_is_shown_at_the_end(tokenizer):
    ids = [t for c in b"please" for t in byte_tokens(tokenizer, c)]
    for tokens, asked, reason in [([*ids, 0], {}, "stop"), (ids, {"max_new_tokens": 6}, "length")]:
        asked["stop"] = ["sex", "aseptic"]
        found = ended(streamed(tokens, text=tokenizer.stream(), **asked))
        assert found[1:] == ("please", reason)


def test_a_stop_string_at_the_limit_is_a_stop_string(tokenizer):
    ids = [t for c in b"abc" for t in byte_tokens(tokenizer, c)]
    stream = streamed(ids, text=tokenizer.stream(), stop=["bc"], max_new_tokens=3)
    assert ended(stream)[1:] == ("a", "stop_string")


def test_stop_strings_without_a_tokenizer_are_refused():
    with pytest.raises(EdgeformerError) as caught:
        streamed([7], stop="x")
    assert "tokenizer" in str(caught.value)


def test_a_broken_logit_is_an_error_in_a_sampled_stream():
    logits = np.zeros(10, np.float32)
    logits[4] = np.nan
    backend = ScriptedBackend(2, logits=logits)
    params = SamplingParams(temperature=1.0)
    with pytest.raises(EdgeformerError) as caught:
        next(stream_ids(backend, [1, 2], params, EOS, 100, 16))
    assert "1 logits of 10" in str(caught.value)


def busy(seconds):
    """Spend at least that long; how long it was."""
    started = perf_counter()
    while perf_counter() < started + seconds:
        pass
    return perf_counter() - started


def test_stats_count_n_minus_1_intervals_and_not_the_callers_time():
    inside = []

    class Slow(ScriptedBackend):
        def step(self, *arguments):
            inside.append(busy(0.02 if len(arguments[0]) > 1 else 0.005))
            return super().step(*arguments)

    stream = Stream(Slow(3, [7]), [5] * 3, SamplingParams(max_new_tokens=5), EOS, 100, 16)
    started = perf_counter()
    caller = sum(busy(0.01) for _ in stream)
    whole = perf_counter() - started
    stats = stream.stats
    assert (stats.prompt_tokens, stats.new_tokens, len(stats.token_s)) == (3, 5, 4)
    assert stats.first_token_s >= inside[0]
    assert all(seconds >= step for seconds, step in zip(stats.token_s, inside[1:]))
    assert stats.first_token_s + sum(stats.token_s) <= whole - caller
    assert stats.tokens_per_s == pytest.approx(4 / sum(stats.token_s))


def test_one_token_has_no_speed():
    stream = streamed([0])
    list(stream)
    assert stream.stats.tokens_per_s is None
    assert stream.stats.token_s == ()
    assert "tokens/s" not in str(stream.stats)


def test_a_closed_stream_is_cancelled_and_over():
    stream = streamed([7])
    next(stream)
    next(stream)
    stream.close()
    assert list(stream) == []
    assert (stream.finish_reason, stream.stats.new_tokens) == ("cancelled", 2)
    stream.close()


def test_closing_a_finished_stream_keeps_its_reason():
    stream = streamed([0])
    list(stream)
    stream.close()
    assert stream.finish_reason == "stop"


def test_ctrl_c_in_a_step_reaches_the_caller_and_cancels_the_stream():
    class Interrupted(ScriptedBackend):
        def step(self, *arguments):
            if len(self.calls) == 3:
                raise KeyboardInterrupt
            return super().step(*arguments)

    stream = Stream(Interrupted(3, [7]), [5] * 3, SamplingParams(), EOS, 100, 16)
    with pytest.raises(KeyboardInterrupt):
        list(stream)
    assert (stream.finish_reason, stream.stats.new_tokens) == ("cancelled", 3)
    assert list(stream) == []


def test_a_second_stream_ends_the_first_with_an_error_and_not_with_garbage():
    backend = ScriptedBackend(3, [7])
    first = Stream(backend, [5] * 3, SamplingParams(), EOS, 100, 16)
    second = Stream(backend, [5] * 3, SamplingParams(max_new_tokens=4), EOS, 100, 16)
    next(first)
    next(first)  # the second has not begun
    next(second)
    with pytest.raises(EdgeformerError) as caught:
        next(first)
    assert "another stream" in str(caught.value)
    assert len(list(second)) == 3


def test_the_seed_of_a_stream_is_in_its_stats():
    asked = {"temperature": 1.0, "max_new_tokens": 1}
    assert streamed([7], seed=2**64 - 1, **asked).stats.seed == 2**64 - 1
    drawn = streamed([7], **asked).stats.seed
    assert 0 <= drawn < 2**64
    assert streamed([7]).stats.seed is None


def test_python_around_a_greedy_step_takes_less_than_100_microseconds(tokenizer):
    inside = []

    class Timed(ScriptedBackend):
        def step(self, *arguments):
            started = perf_counter()
            self.calls = []
            output = super().step(*arguments)
            inside.append(perf_counter() - started)
            return output

    backend = Timed(3, tokenizer.encode("the other thing"), vocabulary=32000)
    params = SamplingParams(max_new_tokens=2000, stop=("\n\n", "END")).checked()
    stream = Stream(backend, [5] * 3, params, EOS, 10000, 16, tokenizer.stream())
    started = perf_counter()
    whole = []
    for _ in stream:
        now = perf_counter()
        whole.append(now - started)
        started = now
    assert len(whole) == len(inside) == 2000
    outside = [total - step for total, step in zip(whole, inside)]
    assert statistics.median(outside) < 100e-6


@pytest.mark.parametrize(
    "path", [bundles.ROPE, bundles.FUSED] if FUSED_RUNS else [bundles.ROPE], ids=os.path.basename
)
def test_a_token_costs_few_calls_however_long_the_context_is(path):
    """Behind a step the CPU's caches are cold, and each function costs what its memory does."""
    with edgeformer.load(path, threads=1) as model:
        model._eos_ids = frozenset()
        stream = model.stream([5, 6, 7], max_new_tokens=80, temperature=0.0)
        push = model.tokenizer.stream().push
        stream._text = None
        counts = [calls_of(lambda: next(stream)) for _ in range(80)]
        assert calls_of(lambda: push(5)) > calls_of(lambda: push(5)) == 2
    usual = sorted(counts)[40]
    assert usual <= (15 if path == bundles.FUSED else 40)
    # but where the cache grows into its next bucket, which binds anew
    assert sum(count > usual for count in counts[1:]) <= 3


def calls_of(function):
    """Functions in Python that it calls, itself counted."""
    events = []
    sys.setprofile(lambda frame, event, _: events.append(event))
    try:
        function()
    finally:
        sys.setprofile(None)
    return events.count("call")
