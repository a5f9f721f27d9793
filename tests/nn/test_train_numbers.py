"""Schedule, windows, held-out text and bits per character against plain computations."""

import math

import pytest
import torch

from edgeformer.nn.config import ModelConfig
from edgeformer.nn.data import Windows, split_text
from edgeformer.nn.decoder import Decoder
from edgeformer.nn.evaluate import bits_per_character
from edgeformer.nn.job import prepare
from edgeformer.nn.plan import Plan, learning_rate
from edgeformer.nn.tokenizer_training import train_byte_bpe
from tests.nn import training_text

PLAN = Plan(
    tokenizer="byte-bpe",
    steps=110,
    batch_size=3,
    sequence=16,
    lr=0.004,
    warmup=10,
    weight_decay=0.1,
    seed=0,
    precision="fp32",
    device="cpu",
    threads=1,
    held_out=0.0,
)


def test_the_learning_rate_climbs_in_a_line_and_falls_along_half_a_cosine():
    rates = [learning_rate(PLAN, step) for step in range(PLAN.steps)]
    assert rates[0] == pytest.approx(0.0004)
    assert rates[4] == pytest.approx(0.002)
    assert rates[9] == rates[10] == max(rates) == 0.004
    assert rates[60] == pytest.approx(0.002)  # half way from 10 to 110
    assert rates[35] == pytest.approx(0.004 * (2 + math.sqrt(2)) / 4)  # a quarter: (1 + cos 45) / 2
    assert 0 < rates[-1] < 0.00001


def test_an_epoch_shows_every_token_at_most_once_and_the_next_is_cut_elsewhere():
    windows = Windows(torch.arange(1000), sequence=16, batch_size=4, seed=3)
    per_epoch = windows.per_epoch
    assert per_epoch == 61
    seen = [windows.batch(step) for step in range(per_epoch * 2 // 4)]
    rows = torch.cat(seen)[: 2 * per_epoch]
    assert all(row.tolist() == list(range(row[0], row[0] + 17)) for row in rows)
    first, second = rows[:per_epoch, :-1], rows[per_epoch : 2 * per_epoch, :-1]
    assert len(set(first.flatten().tolist())) == first.numel()
    assert len(set(second.flatten().tolist())) == second.numel()
    assert set(first[:, 0].tolist()) != set(second[:, 0].tolist())
    assert first[:, 0].tolist() != sorted(first[:, 0].tolist())


def test_a_batch_depends_on_the_seed_and_the_step_only():
    ids = torch.arange(500)
    batches = [Windows(ids, 16, 4, seed=3).batch(7) for _ in range(2)]
    assert torch.equal(*batches)
    assert not torch.equal(batches[0], Windows(ids, 16, 4, seed=4).batch(7))
    assert not torch.equal(batches[0], Windows(ids, 16, 4, seed=3).batch(8))


@pytest.mark.parametrize("tokens", [17, 18, 31, 32, 33, 48])
def test_windows_of_a_short_text_stay_inside_it(tokens):
    windows = Windows(torch.arange(tokens), sequence=16, batch_size=5, seed=0)
    rows = torch.cat([windows.batch(step) for step in range(20)])
    assert rows.shape == (100, 17)
    assert rows.max() < tokens
    if tokens > 17:
        assert len(set(rows[:, 0].tolist())) > 1


def test_held_out_text_is_the_end_and_is_in_no_window_and_not_in_the_tokenizer(tmp_path):
    text_file = training_text.write(tmp_path)[0]
    settings = {"text": text_file, "config": tmp_path / "model.json", "held_out": 0.2}
    job = prepare(settings)
    text = training_text.lines(120)
    training, held_out = (
        job.tokenizer.decode(ids.tolist()) for ids in (job.training_ids, job.held_out_ids)
    )
    assert training + held_out == text
    assert 0.17 < len(held_out) / len(text) <= 0.2
    assert training.endswith("\n")
    windows = Windows(job.training_ids, 16, 3, seed=0)
    for step in range(3 * windows.per_epoch // 3):
        for row in windows.batch(step):
            assert job.tokenizer.decode(row.tolist()) in training
    assert job.tokenizer_json == train_byte_bpe(training, training_text.TINY["vocab_size"])


def test_a_text_of_one_line_is_still_split():
    assert split_text("abcdefghij", 0.3) == ("abcdefg", "hij")
    assert split_text("abc\ndefgh\nij", 0.5) == ("abc\ndefgh\n", "ij")
    assert split_text("abc", 0.0) == ("abc", "")


@pytest.mark.parametrize(("sequence", "stride"), [(12, 12), (12, 5), (40, 7), (100, 50)])
def test_bits_per_character_equal_one_token_at_a_time_in_float64(tmp_path, sequence, stride):
    text_file = training_text.write(tmp_path, count=6)[0]
    job = prepare({"text": text_file, "config": tmp_path / "model.json", "held_out": 0.5})
    ids = job.held_out_ids
    config = ModelConfig(
        vocab_size=job.config.vocab_size, d_model=16, n_layers=1, n_heads=2, d_ff=16,
        max_positions=128, dropout=0.5,
    )  # fmt: skip
    torch.manual_seed(0)
    decoder = Decoder(config).train()
    decoder.reset_parameters(std=0.5)
    measured = bits_per_character(decoder, job.tokenizer, ids, sequence, stride)
    assert decoder.training  # as it was, though nothing was dropped while measuring

    decoder.eval().requires_grad_(False)
    n, bits = len(ids), 0.0
    width = min(sequence, n - 1)
    for target in range(1, n):
        start = 0
        while start + width < target:
            start = min(start + stride, n - 1 - width)
        logits = decoder(ids[None, start:target])[0, -1].double()
        p = (logits - logits.max()).exp()
        bits -= math.log2(p[ids[target]] / p.sum())
    text = job.tokenizer.decode(ids.tolist())
    first = job.tokenizer.decode(ids[:1].tolist())
    assert measured == pytest.approx(bits / (len(text) - len(first)), rel=1e-5)
    assert measured > 1.0
