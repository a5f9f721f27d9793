"""Columns that go, against least squares over the inputs themselves."""

import itertools

import pytest
import torch

from edgeformer.nn.prune import eliminate as under_test
from edgeformer.nn.prune.eliminate import eliminate


@pytest.fixture(autouse=True)
def same_numbers_for_each_test():
    torch.manual_seed(0)


def samples(inputs, count=200):
    """Inputs that say partly the same, so that what is left can make up for what goes."""
    mixed = torch.randn(inputs, inputs, dtype=torch.float64)
    return torch.randn(count, inputs, dtype=torch.float64) @ mixed


def refitted(x, weight, kept, bias=None):
    """The best weights over the kept columns, and what they lose: least squares with ridge rows."""
    if bias is not None:
        x = torch.cat([x, torch.ones(len(x), 1, dtype=x.dtype)], 1)
        weight = torch.cat([weight, bias[:, None]], 1)
        kept = [*kept, x.shape[1] - 1]
    inputs = x.shape[1] - (bias is not None)
    ridge = x.square().sum(0)[:inputs].mean() * under_test.DAMPING
    rows = torch.cat([x, ridge.sqrt() * torch.eye(x.shape[1], dtype=x.dtype)[:inputs]])
    wanted = rows @ weight.t()
    found = torch.linalg.lstsq(rows[:, kept], wanted).solution.t()
    return found, float((rows[:, kept] @ found.t() - wanted).square().sum())


@pytest.mark.parametrize("size", [1, 2, 3])
def test_the_first_group_to_go_is_the_one_that_least_squares_misses_least(size):
    x = samples(6)
    weight = torch.randn(4, 6, dtype=torch.float64)
    ways = []
    for group in range(6 // size):
        kept = [i for i in range(6) if i // size != group]
        ways.append((refitted(x, weight, kept)[1], group))
    assert len({round(loss, 6) for loss, _ in ways}) == len(ways)
    found = eliminate(weight, None, x.t() @ x, size, 1)
    assert set(range(6 // size)) - set(found.kept) == {min(ways)[1]}


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("with_bias", [False, True])
def test_what_stays_has_the_weights_of_least_squares(size, count, with_bias):
    x = samples(10) + 1.0
    weight = torch.randn(4, 10, dtype=torch.float64)
    bias = torch.randn(4, dtype=torch.float64) if with_bias else None
    h = torch.cat([x, torch.ones(200, 1, dtype=x.dtype)], 1) if with_bias else x
    found = eliminate(weight, bias, h.t() @ h, size, count)
    assert len(found.kept) == 10 // size - count
    columns = [g * size + i for g, i in itertools.product(found.kept, range(size))]
    wanted, _ = refitted(x, weight, columns, bias)
    got = found.weight if bias is None else torch.cat([found.weight, found.bias[:, None]], 1)
    torch.testing.assert_close(got, wanted)
    assert not torch.allclose(found.weight, weight[:, columns], atol=1e-3)
    y = h @ (weight if bias is None else torch.cat([weight, bias[:, None]], 1)).t()
    lost = y - x[:, columns] @ found.weight.t() - (0.0 if bias is None else found.bias)
    assert found.error == pytest.approx(float(lost.square().sum() / y.square().sum()))


def test_of_two_inputs_that_are_equal_one_goes_and_the_other_does_the_work_of_both():
    x = samples(5)
    x[:, 3] = x[:, 1]
    weight = torch.ones(2, 5, dtype=torch.float64)
    found = eliminate(weight, None, x.t() @ x, 1, 1)
    assert set(range(5)) - set(found.kept) <= {1, 3}
    assert found.error < 1e-4
    twin = found.kept.index(1 if 1 in found.kept else 3)
    torch.testing.assert_close(
        found.weight[:, twin], torch.full((2,), 2.0).double(), rtol=0.02, atol=0
    )


def test_inputs_that_never_moved_go_first_and_cost_nothing():
    x = samples(8)
    x[:, [2, 5]] = 0.0
    weight = torch.randn(4, 8, dtype=torch.float64)
    found = eliminate(weight, None, x.t() @ x, 1, 2)
    assert found.kept == [0, 1, 3, 4, 6, 7]
    assert found.error == 0.0
    torch.testing.assert_close(found.weight, weight[:, found.kept])


def test_columns_of_zeros_go_first_and_change_no_bit_of_the_others():
    x = samples(200, 400).float()
    weight = torch.randn(4, 200)
    weight[:, 10:170] = 0.0
    found = eliminate(weight, None, x.t() @ x, 1, 160)  # more than one a round
    assert found.kept == [*range(10), *range(170, 200)]
    assert torch.equal(found.weight, weight[:, found.kept])


def test_an_input_that_is_always_the_same_goes_into_the_bias():
    x = samples(4)
    x[:, 2] = 3.0
    h = torch.cat([x, torch.ones(200, 1, dtype=x.dtype)], 1)
    weight, bias = torch.ones(2, 4, dtype=torch.float64), torch.zeros(2, dtype=torch.float64)
    found = eliminate(weight, bias, h.t() @ h, 1, 1)
    assert found.kept == [0, 1, 3]
    torch.testing.assert_close(found.bias, torch.full((2,), 3.0).double(), rtol=0.02, atol=0)
