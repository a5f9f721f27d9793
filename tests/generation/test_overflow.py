"""Streams that are longer than the cache: as if it had been larger, or as if computed anew."""

import json
import os

import onnxruntime
import pytest

import edgeformer
from edgeformer import EdgeformerError, SamplingParams
from edgeformer.__main__ import main
from edgeformer.backends import open_backend
from edgeformer.model import Model
from edgeformer.text import open_tokenizer
from tests import bundles
from tests.generation.test_cache import Watched

FUSED_RUNS = int(onnxruntime.__version__.split(".")[1]) >= 24
PATHS = [bundles.ROPE, bundles.LEARNED, bundles.INT8] + [bundles.FUSED] * FUSED_RUNS
CAPACITY, POSITIONS, WINDOW = 48, 160, 16  # of tiny-ring
TEXT = [(7 * i * i + 3 * i) % 90 + 5 for i in range(POSITIONS + 1)]
DRAWN = {"temperature": 1.0, "seed": 3}


def opened(path, **changes):
    bundle = bundles.opened(path, **changes)
    model = Model(bundle, open_backend(bundle, "ort", 1), open_tokenizer(bundle))
    model._eos_ids = frozenset()
    return model


@pytest.fixture
def model():
    with opened(bundles.RING) as ring:
        yield ring


@pytest.mark.parametrize("capacity", [WINDOW, 17, 20, CAPACITY])
@pytest.mark.parametrize("prompt", [1, 10, CAPACITY, 100])
def test_a_ring_gives_the_tokens_of_a_cache_with_room_for_all(prompt, capacity):
    with opened(bundles.RING, capacity=POSITIONS) as large:
        wanted = [large.generate(TEXT[:prompt], **asked) for asked in ({}, DRAWN)]
    with opened(bundles.RING, capacity=capacity) as small:
        found = [small.generate(TEXT[:prompt], overflow="ring", **more) for more in ({}, DRAWN)]
    for one, other in zip(wanted, found):
        assert len(one.tokens) == POSITIONS + 1 - prompt
        assert len(set(one.tokens)) >= 16
        assert (one.tokens, one.finish_reason) == (other.tokens, "capacity")
        assert other.finish_reason == "positions"


def test_a_ring_runs_one_step_a_token_and_never_needs_more_rows(model):
    watched, dropped, drop = Watched(model), [], model.backend.drop

    def noted(start, stop):
        dropped.append((start, stop))
        drop(start, stop)

    model.backend.drop = noted
    stream = model.stream(TEXT[:10], overflow="ring")
    for _ in stream:
        assert model.backend.cached <= CAPACITY
    assert [len(ids) for ids, _ in watched.steps] == [10] + [1] * (POSITIONS - 10)
    positions = [position for _, places in watched.steps for position in places]
    assert positions == list(range(POSITIONS))
    freed = CAPACITY - WINDOW + 1
    assert dropped == [(0, freed)] * ((POSITIONS - WINDOW) // freed)
    assert model.cached_ids == []  # no row stands at the position that is its index
    again = model.generate(TEXT[:10], max_new_tokens=9, reuse=True)
    assert again.stats.reused_tokens == 0
    with opened(bundles.RING) as fresh:
        assert again.tokens == fresh.generate(TEXT[:10], max_new_tokens=9).tokens


def test_a_ring_ends_where_positions_or_tokens_end(model):
    asked = {"overflow": "ring"}
    assert model.generate(TEXT[:100], max_new_tokens=60, **asked).finish_reason == "length"
    assert model.generate(TEXT[:100], max_new_tokens=61, **asked).finish_reason == "length"
    assert model.generate(TEXT[:100], max_new_tokens=62, **asked).finish_reason == "positions"
    assert len(model.generate(TEXT[:POSITIONS], **asked).tokens) == 1
    with pytest.raises(EdgeformerError, match="161 tokens, the model knows 160 positions"):
        model.stream(TEXT, **asked)
    with pytest.raises(EdgeformerError, match="49 tokens, the bundle's capacity is 48"):
        model.stream(TEXT[:49])


def test_a_ring_in_smaller_chunks_takes_no_row_of_larger_ones():
    with opened(bundles.RING, capacity=20) as model:
        model.generate(TEXT[:18], max_new_tokens=1)
        assert model.generate(TEXT[:19], max_new_tokens=1).stats.reused_tokens == 16
        found = model.generate(TEXT[:19], max_new_tokens=30, overflow="ring")
        assert found.stats.reused_tokens == 0  # its chunks have 5 tokens
    with opened(bundles.RING, capacity=20) as fresh:
        assert found.tokens == fresh.generate(TEXT[:19], max_new_tokens=30, overflow="ring").tokens


@pytest.mark.parametrize(
    "path, capacity, named",
    [
        (bundles.ROPE, 100, "layer 0 of this one sees the whole text"),
        (bundles.LEARNED, 32, "layer 0 of this one sees the whole text"),
        (bundles.RING, 15, "needs a capacity of 16"),
    ],
)
def test_a_ring_is_refused_where_it_would_not_be_exact(path, capacity, named):
    with opened(path, capacity=capacity) as model, pytest.raises(EdgeformerError, match=named):
        model.stream(TEXT[:5], overflow="ring")


@pytest.mark.skipif(not FUSED_RUNS, reason="this onnxruntime has no fused graphs")
def test_a_dialect_without_free_rows_refuses_a_ring_and_shifts():
    with opened(bundles.FUSED) as model:
        with pytest.raises(EdgeformerError, match="dialect ort cannot; use overflow shift"):
            model.stream(TEXT[:5], overflow="ring")
        assert len(model.generate(TEXT[:5], overflow="shift", max_new_tokens=120).tokens) == 120


def follow(path, prompt, count, keep, **asked):
    """What a shifting stream must give, from whole prompts alone."""
    with opened(path) as fresh:
        capacity = fresh.bundle.manifest.capacity
        recent = (capacity - keep) // 2
        seen, tokens, kept = list(prompt), [], []
        while len(tokens) < count:
            part = fresh.generate(seen, reuse=False, **asked).tokens[: count - len(tokens)]
            tokens += part
            text = seen + list(part)
            seen = text[:keep] + text[-recent:]
            kept.append(list(seen))
        return tokens, kept


@pytest.mark.parametrize("path", PATHS, ids=os.path.basename)
@pytest.mark.parametrize("keep", [0, 4, 20])
def test_after_a_shift_a_stream_goes_on_as_a_fresh_prompt_of_what_was_kept(path, keep):
    wanted, kept = follow(path, TEXT[:9], 250, keep)
    with opened(path) as model:
        watched = Watched(model)
        asked = {"overflow": "shift", "overflow_keep": keep, "max_new_tokens": 250}
        found = model.generate(TEXT[:9], **asked)
        assert list(found.tokens) == wanted
        assert found.finish_reason == "length"
        many = [ids for ids, _ in watched.steps if len(ids) > 1]
        assert sum(map(len, many)) >= sum(map(len, kept[:-1])) - 16 * len(kept)
        assert model.cached_ids[: len(kept[-2])] == kept[-2]  # rows that later prompts may take
        capacity = model.bundle.manifest.capacity
        assert max(position for _, places in watched.steps for position in places) < capacity


def test_a_shift_may_keep_all_but_two_rows(model):
    found = model.generate(TEXT[:46], overflow="shift", overflow_keep=46, max_new_tokens=60)
    wanted, kept = follow(bundles.RING, TEXT[:46], 60, 46)
    assert list(found.tokens) == wanted
    assert {len(text) for text in kept} == {47}
    with pytest.raises(EdgeformerError, match="at most 46"):
        model.stream(TEXT[:5], overflow="shift", overflow_keep=47)
    with pytest.raises(EdgeformerError, match="49 tokens, the bundle's capacity is 48"):
        model.stream(TEXT[:49], overflow="shift")


def test_a_drawn_stream_shifts_with_its_penalties_over_the_whole_text(model):
    asked = dict(DRAWN, overflow="shift", presence_penalty=100.0, max_new_tokens=90)
    found = model.generate(TEXT[:5], **asked).tokens
    assert len(set(found)) == 90  # those that were given up count, too
    assert found == model.generate(TEXT[:5], **asked).tokens


def test_by_default_a_stream_ends_with_its_cache(model):
    assert model.generate(TEXT[:5]).finish_reason == "capacity"
    assert SamplingParams().overflow == "stop"
    for wrong in ("wrap", None, 1, ["ring"]):
        with pytest.raises(EdgeformerError, match="stop, shift, ring"):
            model.stream(TEXT[:5], overflow=wrong)
    with pytest.raises(EdgeformerError, match="overflow_keep"):
        model.stream(TEXT[:5], overflow="shift", overflow_keep=-1)


@pytest.mark.parametrize("overflow", ["ring", "shift"])
def test_an_interrupt_at_any_step_leaves_the_model_usable(model, overflow):
    step = model.backend.step
    for at in (0, 30, 38, 39, 40, 60):
        made = []

        def interrupted(*arguments, made=made, at=at):
            made.append(None)
            if len(made) > at:
                raise KeyboardInterrupt
            return step(*arguments)

        model.backend.step = interrupted
        with pytest.raises(KeyboardInterrupt):
            list(model.stream(TEXT[:10], overflow=overflow))
        model.backend.step = step
        with opened(bundles.RING) as fresh:
            wanted = fresh.generate(TEXT[:20], max_new_tokens=9).tokens
        assert model.generate(TEXT[:20], max_new_tokens=9).tokens == wanted


def test_drafts_and_overflow_do_not_go_together(model):
    for overflow in ("ring", "shift"):
        with pytest.raises(EdgeformerError, match="leave drafting off"):
            model.stream(TEXT[:5], overflow=overflow, draft="lookup")


@pytest.mark.parametrize("path, overflow", [(bundles.RING, "ring"), (bundles.ROPE, "shift")])
def test_the_command_goes_on_beyond_the_cache(capfd, path, overflow):
    asked = {"overflow": overflow, "max_new_tokens": 120, "banned_tokens": [0]}
    with edgeformer.load(path, threads=1) as model:
        wanted = model.generate("the", overflow_keep=2, **asked).tokens
        other = model.generate("the", overflow_keep=20, **asked).tokens
    assert (wanted != other) == (overflow == "shift")
    options = ["--overflow", overflow, "--overflow-keep", "2", "--max-new-tokens", "120"]
    assert main(["generate", path, "the", *options, "--ban", "0", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["tokens"] == list(wanted)
