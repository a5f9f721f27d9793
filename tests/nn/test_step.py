"""Cached equals uncached, for every choice: chunks, shuffled rows, padding, truncation, greedy."""

import random

import pytest
import torch

from edgeformer.nn.step import CachedStep
from tests.nn.choices import CHOICES, PROMPT, choice_decoder
from tests.nn.references import TOLERANCE, error
from tests.nn.rows import Rows

pytestmark = pytest.mark.usefixtures("without_gradients")
EVERY = pytest.mark.parametrize("name", CHOICES)
SOME = pytest.mark.parametrize(
    "name", ("gqa", "alibi-gqa", "learned-offset", "like-gemma", "like-gpt2", "norm-post")
)
LENGTH = 40


def sequence(seed: int = 1, length: int = LENGTH) -> list[int]:
    chooser = random.Random(seed)
    return [chooser.randrange(96) for _ in range(length)]


def uncached(decoder, ids: list[int]) -> torch.Tensor:
    return decoder(torch.tensor([ids]))[0]  # [T, vocab]


def chunks(chooser: random.Random, start: int, end: int):
    """Random splits: single tokens, and chunks longer than the windows of the choices."""
    while start < end:
        size = min(end - start, chooser.choice((1, 1, 2, 3, 5, 8, 13)))
        yield start, start + size
        start += size


@EVERY
def test_random_chunks_equal_uncached(name):
    decoder, ids, chooser = choice_decoder(name), sequence(), random.Random(name)
    cache, found = Rows(decoder, LENGTH + 7), []
    for start, end in chunks(chooser, 0, LENGTH):
        if end - start == 1 and chooser.random() < 0.5:
            found.append(cache.step_one(ids[start], start))
            continue
        tokens, positions = ids[start:end], list(range(start, end))
        for _ in range(chooser.choice((0, 0, 2))):  # padding, anywhere in the chunk
            place = chooser.randrange(len(tokens) + 1)
            tokens.insert(place, chooser.randrange(96))
            positions.insert(place, -1)
        rows = [positions.index(p) for p in range(start, end)]
        found.append(cache.step(tokens, positions, rows))
    assert error(torch.cat(found), uncached(decoder, ids)) < TOLERANCE


@EVERY
def test_greedy_tokens_equal_uncached_over_64_steps(name):
    """The prompt by the prefill module, each further token by the decode module."""
    decoder = choice_decoder(name)
    cache, ids = Rows(decoder, len(PROMPT) + 64), list(PROMPT)
    found = [cache.step(ids, list(range(len(ids))), [len(ids) - 1])]
    for _ in range(63):
        ids.append(int(found[-1].argmax()))
        found.append(cache.step_one(ids[-1], len(ids) - 1))
    assert len({*ids[len(PROMPT) :], int(found[-1].argmax())}) >= 16, (
        "a model that repeats itself hides faults"
    )
    logits = torch.cat(found)  # [64, vocab]
    wanted = uncached(decoder, ids)[len(PROMPT) - 1 :]
    assert error(logits, wanted) < TOLERANCE
    best = wanted.topk(2, dim=-1).values
    clear = best[:, 0] - best[:, 1] > 10 * TOLERANCE * best[:, 0].abs().clamp(min=1)
    assert clear.sum() > 50
    assert torch.equal(logits.argmax(-1)[clear], wanted.argmax(-1)[clear])


@EVERY
def test_one_chunk_equals_one_token_at_a_time(name):
    """Through the same module, T = 24 and T = 1, with the cached rows equal too."""
    decoder, ids = choice_decoder(name), sequence(2, 24)
    whole, single = Rows(decoder, 24), Rows(decoder, 24)
    logits = whole.step(ids, list(range(24)), list(range(24)))
    steps = [single.step([token], [i], [0]) for i, token in enumerate(ids)]
    assert error(torch.cat(steps), logits) < TOLERANCE
    assert torch.equal(whole.positions.sort().values, single.positions.sort().values)
    for one, other in zip(whole.past, single.past, strict=True):
        # both took the same places in the same order
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


@EVERY
def test_an_empty_cache_and_padding_give_no_nan(name):
    """P = 1 empty row, and rows of padding, whose logits nobody reads."""
    decoder, ids = choice_decoder(name), sequence(3, 4)
    cache = Rows(decoder, 1)
    inputs = (
        torch.tensor([*ids, 0, 0], dtype=torch.int32),
        torch.tensor([0, 1, 2, 3, -1, -1], dtype=torch.int32),
        cache.positions,
    )
    logits, *new = cache.many(*inputs, torch.arange(6, dtype=torch.int32), *cache.past)
    assert all(torch.isfinite(t).all() for t in (logits, *new))
    assert error(logits[:4], uncached(decoder, ids)) < TOLERANCE
    only = torch.tensor([-1], dtype=torch.int32)
    alone = cache.many(only * 0, only, cache.positions, only * 0, *cache.past)
    assert all(torch.isfinite(t).all() for t in alone)


@SOME
@pytest.mark.parametrize("run", ("prefill", "decode"))
def test_a_row_with_the_same_or_a_later_position_is_not_seen(name, run):
    """A token that is computed again supersedes its old row, whatever stands there."""
    decoder, ids = choice_decoder(name), sequence(4, 9)
    cache = Rows(decoder, 17)
    other = [*ids[:8], *sequence(5, 8)]
    cache.step(other, list(range(16)), [0])  # rows 8 to 15 are of another text
    logits = cache.step_one(ids[8], 8) if run == "decode" else cache.step([ids[8]], [8], [0])
    assert error(logits[0], uncached(decoder, ids)[8]) < TOLERANCE


@SOME
def test_after_truncation_another_text_can_follow(name):
    decoder, ids = choice_decoder(name), sequence(6, 20)
    cache = Rows(decoder, 24)
    cache.step(ids, list(range(20)), [19])
    cache.truncate(9)
    assert int((cache.positions >= 0).sum()) == 9
    branch = [*ids[:9], *sequence(7, 11)]
    logits = cache.step(branch[9:], list(range(9, 20)), list(range(11)))
    assert error(logits, uncached(decoder, branch)[9:]) < TOLERANCE
    assert error(logits, uncached(decoder, ids)[9:]) > 0.01


def test_rows_that_left_every_window_can_be_thrown_away():
    """A ring buffer of `window` rows serves a text of any length."""
    decoder, ids = choice_decoder("window"), sequence(8)
    window = decoder.config.window
    cache, wanted = Rows(decoder, 2 * window), uncached(decoder, ids)
    for i, token in enumerate(ids):
        assert error(cache.step_one(token, i)[0], wanted[i]) < TOLERANCE
        gone = ((cache.positions >= 0) & (cache.positions <= i + 1 - window)).nonzero().flatten()
        cache.positions[gone] = -1
        cache.places += gone.tolist()


@pytest.mark.parametrize("name", ("window", "window-1", "rope-two-thetas", "alibi-gqa"))
def test_a_chunk_longer_than_the_window_equals_uncached(name):
    decoder, ids = choice_decoder(name), sequence(9)
    cache = Rows(decoder, LENGTH + 1)
    first = cache.step(ids[:3], [0, 1, 2], [0, 1, 2])
    rest = cache.step(ids[3:], list(range(3, LENGTH)), list(range(LENGTH - 3)))
    assert error(torch.cat([first, rest]), uncached(decoder, ids)) < TOLERANCE


def test_rows_choose_which_tokens_get_logits_and_in_which_order():
    decoder, ids = choice_decoder("gqa"), sequence(10, 9)
    found = Rows(decoder, 9).step(ids, list(range(9)), [7, 0, 7])
    assert error(found, uncached(decoder, ids)[[7, 0, 7]]) < TOLERANCE


@EVERY
@pytest.mark.parametrize("one", (False, True), ids=("prefill", "decode"))
def test_names_and_shapes_are_those_of_the_graph_contract(name, one):
    decoder = choice_decoder(name)
    step, c = CachedStep(decoder, one=one), decoder.config
    inputs = dict(zip(step.input_names, step.example_inputs(tokens=3, past=5, rows=2), strict=True))
    tokens, rows = (1, 1) if one else (3, 2)
    fixed = {"token_ids": (tokens,), "positions": (tokens,), "past_positions": (5,)}
    fixed.update({} if one else {"rows": (rows,)})
    kv = [f"{i}.{part}" for i in range(c.n_layers) for part in ("key", "value")]
    past = {f"past.{n}": (5, c.n_kv_heads * c.head_dim) for n in kv}
    assert list(inputs) == [*fixed, *past]
    assert {n: tuple(t.shape) for n, t in inputs.items()} == {**fixed, **past}
    assert all(inputs[n].dtype == torch.int32 for n in fixed)
    outputs = dict(zip(step.output_names, step(*inputs.values()), strict=True))
    new = {f"new.{n}": (tokens, c.n_kv_heads * c.head_dim) for n in kv}
    assert {n: tuple(t.shape) for n, t in outputs.items()} == {"logits": (rows, 96), **new}
    assert list(outputs) == ["logits", *new]
    assert all(t.dtype == torch.float32 for t in outputs.values())
