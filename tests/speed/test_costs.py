"""What a step costs, against counts made by hand from the sizes of the committed bundles."""

import pytest

from edgeformer.bundle import Bundle
from edgeformer.speed.costs import Steps
from tests import bundles

# of tiny-rope, tests/export/make_bundles.py: width 32, 2 layers, 4 heads of 8, 2 for keys, ff 32
VOCABULARY, D, LAYERS, KV, FF, HEADS = 280, 32, 2, 16, 32, 4
MATRICES = [(D, D + 2 * KV), (D, D), (D, 2 * FF), (FF, D)] * LAYERS + [(D, VOCABULARY)]
ELEMENTS = sum(a * b for a, b in MATRICES)


def steps(path, precision=None, onnxruntime=True):
    bundle = Bundle.open(path)
    return Steps(bundle, precision or bundle.manifest.precision, onnxruntime)


def attention(tokens, past):
    """Multiply-adds: every head's scores and values, against old and new rows."""
    return 2 * LAYERS * D * tokens * (past + tokens)


@pytest.mark.parametrize("kind", ["ROPE", "HOST", "HALF", "BLOCKS", "INT8"])
def test_operations_of_a_token_are_those_counted_by_hand(kind):
    step = steps(getattr(bundles, kind)).decode(40)
    # onnxruntime reads whole buckets, but in its own operator
    assert step.past == (40 if kind == "BLOCKS" else 64)
    assert step.flops == 2 * (ELEMENTS + attention(1, step.past))
    assert step.products == len(MATRICES)


def test_operations_of_a_prompt_count_one_row_of_logits():
    step = steps(bundles.ROPE).prefill(10)
    layers = ELEMENTS - D * VOCABULARY
    assert step.flops == 2 * (10 * layers + D * VOCABULARY + attention(10, 64))


def test_bytes_of_a_token_are_matrices_norms_and_the_rows_in_use():
    step = steps(bundles.ROPE).decode(1)
    norms = (2 * LAYERS + 1) * D
    looked_up = D + 2 * 8  # one row of the embedding; of sine and cosine
    assert 4 * (ELEMENTS + norms + looked_up) <= step.weight_bytes
    # what is more are the small constants of masks and positions
    assert step.weight_bytes <= 4 * (ELEMENTS + norms + looked_up) + 1500
    assert step.cache_bytes == 65 * 2 * LAYERS * KV * 4


def test_an_fp16_engine_reads_half_of_what_fp32_does_and_only_the_rows_in_use():
    half, whole = (steps(bundles.ROPE, p, onnxruntime=False).decode(40) for p in ("fp16", "fp32"))
    assert half.past == 40
    assert half.cache_bytes == whole.cache_bytes // 2 == 41 * 2 * LAYERS * KV * 2
    assert 0.5 * whole.weight_bytes <= half.weight_bytes < 0.55 * whole.weight_bytes


def test_onnxruntime_computes_half_precision_from_whole_copies():
    half, whole = (steps(path).decode(1) for path in (bundles.HALF, bundles.ROPE))
    assert abs(half.weight_bytes - whole.weight_bytes) < 0.02 * whole.weight_bytes
    assert half.cache_bytes == whole.cache_bytes // 2


def test_eight_bits_are_read_as_bytes_with_their_scales():
    blocks, int8 = (steps(path).decode(1) for path in (bundles.BLOCKS, bundles.INT8))
    norms = 4 * (2 * LAYERS + 1) * D
    # a float32 scale for each block of 32
    assert ELEMENTS * (1 + 4 / 32) <= blocks.weight_bytes - norms < 1.3 * ELEMENTS + 1500
    # a float32 scale for each column, and a float32 table of which one row is read
    assert ELEMENTS <= int8.weight_bytes - norms < 1.3 * ELEMENTS + 2500


def test_matrices_are_named_with_their_sizes_and_bits():
    for path, operator, bits in (
        (bundles.ROPE, "MatMul", 32),
        (bundles.BLOCKS, "MatMulNBits", 8),
        (bundles.INT8, "MatMulInteger", 8),
    ):
        found = steps(path).matrices()
        assert sorted((m.inner, m.outer) for m in found) == sorted(MATRICES)
        assert (found[0].operator, found[0].bits) == (operator, bits)


def test_more_rows_or_tokens_never_cost_less():
    of = steps(bundles.ROPE)
    previous = of.decode(1)
    for past in (63, 64, 65, 99):
        step = of.decode(past)
        assert step.bytes >= previous.bytes
        assert step.flops >= previous.flops
        previous = step
    assert of.prefill(16).flops > of.prefill(8).flops > of.prefill(1).flops
    assert of.decode(99).past == 128  # of a capacity of 100: the cache is whole buckets


def test_what_computes_is_less_than_what_runs():
    for path in (bundles.ROPE, bundles.LEARNED, bundles.BLOCKS, bundles.INT8):
        step = steps(path).decode(1)
        assert step.products < step.least_nodes < step.nodes
