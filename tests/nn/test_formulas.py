"""Norms, activations and position tables against float64 formulas written down anew."""

import dataclasses
import math

import numpy as np
import pytest
import torch

from edgeformer.nn.decoder import alibi_slopes, sinusoidal_table
from edgeformer.nn.layers import FeedForward, Norm
from tests.nn.choices import PLAIN, choice_decoder, random_decoder
from tests.nn.references import TOLERANCE, error

pytestmark = pytest.mark.usefixtures("without_gradients")
NORMS = {
    "rmsnorm": {},
    "rmsnorm-plus-one": {"norm_plus_one": True},
    "layernorm": {"norm": "layernorm"},
}
ROWS = {
    "random": np.random.RandomState(0).randn(4, 64),
    "large": np.random.RandomState(1).randn(4, 64) * 1e4,
    "squares-overflow-float16": np.array([[300.0, -300.0] * 32, [300.0] * 63 + [301.0]]),
    "zeros": np.zeros((1, 64)),
    # mean of squares minus square of mean is -0.0039 here in float32
    "one-255-among-10240": np.array([[256.0] * 10239 + [255.0]]),
}


def norm_of(changes: dict, width: int) -> Norm:
    norm = Norm(dataclasses.replace(PLAIN, **changes), width)
    for p in norm.parameters():
        p.add_(torch.linspace(-0.3, 0.4, width))
    return norm


def normed(norm: Norm, x: np.ndarray) -> np.ndarray:
    weight, bias = (None if p is None else p.double().numpy() for p in (norm.weight, norm.bias))
    x = x - x.mean(-1, keepdims=True) if norm.centered else x
    y = x / np.sqrt((x * x).mean(-1, keepdims=True) + norm.eps)
    return y * (1 + weight if norm.plus_one else weight) + (0 if bias is None else bias)


@pytest.mark.parametrize("kind", NORMS)
@pytest.mark.parametrize("row", ROWS)
def test_norms_equal_float64_on_hard_rows(kind, row):
    x = ROWS[row]
    norm = norm_of(NORMS[kind], x.shape[-1])
    found = norm(torch.from_numpy(x).float()).numpy()
    # a mean of 10240 values near 256 is known to 1e-5 in float32; the deviations are 1e-4
    atol = 0.02 if row == "one-255-among-10240" else 1e-5
    np.testing.assert_allclose(
        found, normed(norm, x), rtol=1e-5 if atol < 0.01 else 0.02, atol=atol
    )


@pytest.mark.parametrize("kind", NORMS)
@pytest.mark.parametrize("row", ROWS)
def test_norms_in_half_have_statistics_in_float32(kind, row):
    x = ROWS[row].astype(np.float16)
    norm = norm_of(NORMS[kind], x.shape[-1]).half()
    found = norm(torch.from_numpy(x))
    assert found.dtype == torch.float16
    assert torch.isfinite(found).all()
    wanted = normed(norm, x.astype(np.float64))
    np.testing.assert_allclose(found.numpy(), wanted, rtol=0.02, atol=0.02)


GATES = {
    "swiglu": lambda x: x / (1 + math.exp(-x)),
    "geglu": lambda x: x * 0.5 * (1 + math.erf(x / math.sqrt(2))),
    "geglu_tanh": lambda x: (
        x * 0.5 * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    ),
    "relu": lambda x: max(x, 0.0),
}
GATES["gelu"], GATES["gelu_tanh"] = GATES["geglu"], GATES["geglu_tanh"]


@pytest.mark.parametrize("kind", GATES)
def test_feed_forward_equals_float64(kind):
    config = dataclasses.replace(PLAIN, feed_forward=kind, ff_bias=True)
    ff = FeedForward(config)
    generator = torch.Generator().manual_seed(0)
    for p in ff.parameters():
        p.normal_(0, 0.5, generator=generator)
    x = torch.randn(6, config.d_model, generator=generator)
    up, up_bias, down, down_bias = (
        p.double().numpy() for p in (ff.up.weight, ff.up.bias, ff.down.weight, ff.down.bias)
    )
    hidden = x.double().numpy() @ up.T + up_bias
    activation = np.vectorize(GATES[kind])
    if kind in ("swiglu", "geglu", "geglu_tanh"):
        hidden = activation(hidden[:, :48]) * hidden[:, 48:]
    else:
        hidden = activation(hidden)
    np.testing.assert_allclose(ff(x).numpy(), hidden @ down.T + down_bias, rtol=1e-4, atol=1e-4)


def test_sinusoids_are_those_of_the_paper():
    table = sinusoidal_table(3000, 10)
    for position in (0, 1, 77, 2999):
        for i in range(5):
            angle = position / 10000 ** (2 * i / 10)
            assert table[position, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-6)
            assert table[position, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-6)


def test_sinusoids_are_added_to_the_embedding():
    """A model without positions, fed the sum, gives the same logits."""
    decoder = choice_decoder("sinusoidal")
    plain = random_decoder(dataclasses.replace(decoder.config, position="none"))
    plain.load_state_dict(decoder.state_dict())
    ids = torch.arange(20)
    plain.embedding.weight[:20] += sinusoidal_table(20, decoder.config.d_model)
    found = decoder(ids[None])
    assert error(found, plain(ids[None])) < TOLERANCE
    assert error(found, choice_decoder("position-none")(ids[None])) > 0.01


@pytest.mark.parametrize(
    ("heads", "exponents"),
    (
        (1, [8]),
        (2, [4, 8]),
        (8, [1, 2, 3, 4, 5, 6, 7, 8]),
        (16, [0.5 * i for i in range(1, 17)]),
        (12, [1, 2, 3, 4, 5, 6, 7, 8, 0.5, 1.5, 2.5, 3.5]),
        (3, [4, 8, 2]),
    ),
)
def test_alibi_slopes_are_those_of_the_paper(heads, exponents):
    wanted = [2.0**-e for e in exponents]
    np.testing.assert_allclose(alibi_slopes(heads).numpy(), wanted, rtol=1e-6)
