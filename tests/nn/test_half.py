"""Half precision: finite, close to float32, and exact where positions are concerned."""

import copy
import dataclasses

import pytest
import torch

from edgeformer.nn.decoder import Decoder
from tests.nn.choices import CHOICES, PLAIN, random_decoder
from tests.nn.rows import Rows

pytestmark = pytest.mark.usefixtures("without_gradients")
RELATIVE = 1e-2  # of the largest logit
FAR = 30_000  # float16 holds no odd number above 2048
BEFORE, AFTER = 10, 3  # cached rows and new tokens around FAR


def half_of(decoder: Decoder) -> Decoder:
    return copy.deepcopy(decoder).half()


def far_decoder(**changes) -> Decoder:
    values = {"n_layers": 1, "max_positions": 2**15, **changes}
    return random_decoder(dataclasses.replace(PLAIN, **values), 1, 0.2)


def steps(decoder: Decoder, first: int) -> tuple[Rows, torch.Tensor]:
    """Logits [AFTER, vocab] of the last tokens; the first of all stands at position `first`."""
    ids = [(37 * i + 11) % 96 for i in range(BEFORE + AFTER)]
    positions = [first + i for i in range(BEFORE + AFTER)]
    rows = Rows(decoder, BEFORE + AFTER + 4)
    rows.step(ids[:BEFORE], positions[:BEFORE], [0])
    return rows, rows.step(ids[BEFORE:], positions[BEFORE:], list(range(AFTER)))


@pytest.mark.parametrize("name", CHOICES)
def test_half_steps_are_finite_and_close_to_float32(name):
    decoder = random_decoder(CHOICES[name], 1, 0.2)
    rows, logits = steps(half_of(decoder), 0)
    _, wanted = steps(decoder, 0)
    assert {t.dtype for t in rows.past} == {torch.float16}
    assert logits.dtype == torch.float32
    assert torch.isfinite(logits).all()
    assert (logits - wanted).abs().max() < RELATIVE * wanted.abs().max()


@pytest.mark.parametrize("name", CHOICES)
def test_casting_a_decoder_leaves_its_position_tables_in_float32(name):
    decoder = random_decoder(CHOICES[name])
    half = half_of(decoder)
    assert {p.dtype for p in half.parameters()} == {torch.float16}
    for table, wanted in zip(half.buffers(), decoder.buffers(), strict=True):
        assert table.dtype == torch.float32
        assert torch.equal(table, wanted)


@pytest.mark.parametrize(
    "changes",
    ({}, {"window": 5}, {"position": "alibi"}, {"position": "none"}),
    ids=("rope", "window", "alibi", "none"),
)
def test_far_positions_give_in_half_what_near_ones_give_in_float32(changes):
    decoder = far_decoder(**changes)
    _, far = steps(half_of(decoder), FAR - BEFORE)
    _, near = steps(decoder, 0)
    assert (far - near).abs().max() < RELATIVE * near.abs().max()


@pytest.mark.parametrize("window", (1, 5, 8, 13))
def test_far_windows_end_at_the_very_row_in_half(window):
    """A cached row counts for exactly the tokens whose window reaches it."""
    decoder = half_of(far_decoder(window=window))
    rows, _ = steps(decoder, FAR - BEFORE)
    rows.truncate(FAR)
    ids = torch.tensor([7, 8, 9], dtype=torch.int32)
    positions = torch.arange(FAR, FAR + AFTER, dtype=torch.int32)
    chosen = torch.arange(AFTER, dtype=torch.int32)
    before, *_ = rows.many(ids, positions, rows.positions, chosen, *rows.past)
    for position in range(FAR - BEFORE, FAR):
        place = (rows.positions == position).nonzero().flatten()
        past = [t.clone() for t in rows.past]
        past[1][place] += 2.0  # its value
        after, *_ = rows.many(ids, positions, rows.positions, chosen, *past)
        seen = [not torch.equal(a, b) for a, b in zip(after, before, strict=True)]
        assert seen == [FAR + i - position < window for i in range(AFTER)], position
