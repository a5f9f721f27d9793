"""The uncached decoder: training sees every weight, and sequences keep to themselves."""

import dataclasses

import pytest
import torch

from edgeformer.errors import EdgeformerError
from edgeformer.nn.decoder import Decoder
from tests.nn.choices import CHOICES, PLAIN, choice_decoder, random_decoder
from tests.nn.references import TOLERANCE, error


def ids(batch: int = 3, length: int = 20) -> torch.Tensor:
    return torch.randint(0, 96, (batch, length), generator=torch.Generator().manual_seed(5))


@pytest.mark.parametrize("name", CHOICES)
def test_every_weight_gets_a_finite_gradient_that_is_not_zero(name):
    decoder = choice_decoder(name).train()
    logits = decoder(ids())  # [B, T, vocab]
    targets = ids().roll(-1, 1)
    torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten()).backward()
    for parameter, p in decoder.named_parameters():
        assert p.grad is not None, parameter
        assert torch.isfinite(p.grad).all(), parameter
        assert p.grad.abs().max() > 0, parameter


@pytest.mark.parametrize("name", CHOICES)
@torch.no_grad()
def test_logits_depend_on_no_other_sequence_and_on_no_later_token(name):
    decoder, batch = choice_decoder(name), ids()
    logits = decoder(batch)
    assert logits.dtype == torch.float32
    assert logits.shape == (3, 20, 96)
    for row in range(3):
        assert error(decoder(batch[row : row + 1, :11]), logits[row : row + 1, :11]) < TOLERANCE


def test_a_sequence_longer_than_max_positions_is_refused_with_both_numbers():
    decoder = Decoder(PLAIN)
    assert decoder(torch.zeros(1, 80, dtype=torch.long)).shape == (1, 80, 96)
    with pytest.raises(EdgeformerError, match=r"81 tokens.*max_positions 80"):
        decoder(torch.zeros(1, 81, dtype=torch.long))


@torch.no_grad()
def test_dropout_is_random_in_training_and_absent_in_evaluation():
    decoder = choice_decoder("dropout")
    without = choice_decoder("gqa")
    assert torch.equal(decoder(ids()), without(ids()))
    decoder.train()
    assert not torch.equal(decoder(ids()), decoder(ids()))
    torch.manual_seed(3)
    once = decoder(ids())
    torch.manual_seed(3)
    assert torch.equal(decoder(ids()), once)


@torch.no_grad()
def test_all_of_the_residual_is_lost_at_a_dropout_near_one():
    """It stands on the embedding and on both sublayers: nothing but zeros reaches the head."""
    decoder = random_decoder(dataclasses.replace(PLAIN, dropout=1 - 1e-7)).train()
    assert decoder(ids()).abs().max() == 0


@torch.no_grad()
@pytest.mark.parametrize("name", ("like-phi", "qk-norm-heads", "rmsnorm-plus-one", "learned"))
def test_weights_depend_on_the_generator_alone(name):
    """Nothing is left over from PyTorch's own start, which takes the global seed."""
    first, second = Decoder(CHOICES[name]), Decoder(CHOICES[name])
    for decoder in (first, second):
        decoder.reset_parameters(0.02, torch.Generator().manual_seed(9))
    for (parameter, p), q in zip(first.named_parameters(), second.parameters(), strict=True):
        assert torch.equal(p, q), parameter
        if parameter.endswith("bias"):
            assert p.abs().max() == 0, parameter
        elif "norm" in parameter:
            one = 0.0 if CHOICES[name].norm_plus_one else 1.0
            assert (p == one).all(), parameter
        else:
            narrow = parameter.endswith(("attention.out.weight", "ff.down.weight"))
            wanted = 0.02 / (2 * first.config.n_layers) ** 0.5 if narrow else 0.02
            assert p.std().item() == pytest.approx(wanted, rel=0.1), parameter
