"""Every choice of a config survives the graphs: contract, operators, arithmetic."""

import random

import pytest
import torch

from edgeformer.bundle import Bundle
from tests.export.graph_rows import GraphRows, graph_of
from tests.nn.choices import CHOICES, choice_decoder
from tests.nn.references import TOLERANCE, error

EVERY = pytest.mark.parametrize("name", CHOICES)
BOTH = pytest.mark.parametrize("kind", ("prefill", "decode"))
LENGTH = 30

# What the choices of a ModelConfig need. A new operator here is a decision, not an accident.
# fmt: off
OPERATORS = {
    "Add", "Cast", "Concat", "Div", "Gather", "Gemm", "MatMul", "Max", "Min", "Mul", "Pow",
    "ReduceMean", "Reshape", "Shape", "Sigmoid", "Slice", "Softmax", "Split", "Sqrt", "Sub",
    "Transpose", "Unsqueeze", "Erf", "Tanh", "Relu",
}
# fmt: on


def uncached(decoder, ids):
    with torch.no_grad():
        return decoder(torch.tensor([ids]))[0]  # [T, vocab]


@EVERY
def test_it_exports_and_its_golden_run_has_16_distinct_tokens(name, bundles):
    """The export itself compares the logits of 64 steps with uncached PyTorch, and raises."""
    golden = bundles[name].golden
    assert len(golden.greedy_ids) == 64
    assert golden.distinct >= 16
    assert 0 < golden.largest_logit_error < 1e-4
    Bundle.open(str(bundles[name].path)).verify_hashes()


@EVERY
@BOTH
def test_its_graphs_use_known_operators_and_one_size(name, kind, bundles):
    graph = graph_of(bundles[name].path, kind).graph
    assert {node.op_type for node in graph.node} <= OPERATORS
    shapes = {out for node in graph.node if node.op_type == "Shape" for out in node.output}
    assert len(shapes) == (1 if kind == "prefill" else 0)
    readers = {node.op_type for node in graph.node if shapes & set(node.input)}
    assert readers <= {"Slice"}


@EVERY
def test_chunks_with_padding_over_shuffled_rows_equal_uncached(name, bundles):
    decoder, chooser = choice_decoder(name), random.Random(name)
    ids = [chooser.randrange(96) for _ in range(LENGTH)]
    cache, found = GraphRows(decoder, LENGTH + 5, bundles[name].path), []
    start = 0
    while start < LENGTH:
        end = min(LENGTH, start + chooser.choice((1, 2, 7, 11)))
        if end - start == 1:
            found.append(cache.step_one(ids[start], start))
        else:
            tokens, positions = [*ids[start:end], 5, 6], [*range(start, end), -1, -1]
            found.append(cache.step(tokens, positions, list(range(end - start))))
        start = end
    assert error(torch.cat(found), uncached(decoder, ids)) < TOLERANCE


@EVERY
@BOTH
def test_an_empty_cache_of_one_row_gives_no_nan(name, kind, bundles):
    decoder = choice_decoder(name)
    cache = GraphRows(decoder, 1, bundles[name].path)
    one = torch.zeros(1, dtype=torch.int32)
    if kind == "decode":
        logits, *new = cache.one(one, one, cache.positions, *cache.past)
    else:
        tokens, positions = one.repeat(2), torch.tensor([0, -1], dtype=torch.int32)
        rows = torch.arange(2, dtype=torch.int32)
        logits, *new = cache.many(tokens, positions, cache.positions, rows, *cache.past)
    assert all(torch.isfinite(t).all() for t in (logits, *new))
    assert error(logits[:1], uncached(decoder, [0])) < TOLERANCE


@pytest.mark.parametrize("name", ("gqa", "alibi-gqa", "like-gemma"))
@BOTH
def test_a_token_computed_again_supersedes_its_old_row(name, kind, bundles):
    """Rows 8 to 15 are of another text; the new token stands at position 8."""
    decoder, chooser = choice_decoder(name), random.Random(name)
    ids, other = ([chooser.randrange(96) for _ in range(n)] for n in (9, 8))
    cache = GraphRows(decoder, 17, bundles[name].path)
    cache.step([*ids[:8], *other], list(range(16)), [0])
    logits = cache.step_one(ids[8], 8) if kind == "decode" else cache.step([ids[8]], [8], [0])
    assert error(logits[0], uncached(decoder, ids)[8]) < TOLERANCE
