"""The formula, against numbers worked out by hand, and the published facts."""

import os

import pytest

from edgeformer.errors import EdgeformerError
from edgeformer.speed import facts, published
from edgeformer.speed.costs import Step
from edgeformer.speed.predict import Machine, Range, predict
from edgeformer.targets import NO_PAGE, TARGETS
from tests.bundles import FOLDER

STEP = Step(
    tokens=1,
    past=64,
    weight_bytes=900,
    cache_bytes=100,
    flops=4000,
    products=3,
    nodes=30,
    least_nodes=10,
)


def same(value):
    return Range(value, value, value)


def machine(bandwidth=100.0, rate=1000.0, chunk_rate=4000.0, node=0.5, host=2.0):
    return Machine(*map(same, (bandwidth, rate, chunk_rate, node, host)))


def test_a_step_is_its_roof_its_nodes_and_the_host():
    found = predict(STEP, machine())
    # 1000 bytes at 100 a second; 2000 multiply-adds at 1000; 30 nodes of a half; 2
    assert found.seconds == same(10 + 15 + 2)
    assert found.parts == {"reading": 10, "products": 2, "nodes": 15, "host": 2}
    assert found.bound_by == "nodes"
    assert found.ceiling == same(0.1)


def test_the_slower_of_reading_and_products_counts():
    assert predict(STEP, machine(rate=100.0)).seconds == same(20 + 15 + 2)
    assert predict(STEP, machine(bandwidth=1e9)).seconds == same(2 + 15 + 2)


def test_many_tokens_go_at_the_rate_of_many():
    found = predict(STEP._replace(tokens=8), machine(bandwidth=1e9))
    assert found.seconds == same(0.5 + 15 + 2)
    assert found.per_second(8) == same(8 / 17.5)


def test_a_compiler_may_leave_few_nodes_or_all():
    found = predict(STEP, machine(), compiled=True)
    assert found.seconds == Range(10 + 5 + 2, 10 + 10 + 2, 10 + 15 + 2)


def test_ranges_are_ordered_and_rates_turn_round():
    ranged = Machine(
        Range(50, 100, 200),
        Range(1000, 2000, 4000),
        same(1.0),
        Range(0.1, 0.2, 0.4),
        Range(1, 2, 3),
    )
    found = predict(STEP, ranged)
    assert found.seconds == Range(5 + 3 + 1, 10 + 6 + 2, 20 + 12 + 3)
    assert found.per_second() == Range(1 / 35, 1 / 18, 1 / 9)
    assert found.ceiling == Range(1 / 20, 1 / 10, 1 / 5)


@pytest.mark.parametrize("part", ["bandwidth", "rate", "node", "host"])
def test_a_slower_machine_is_never_predicted_faster(part):
    slow = {"bandwidth": 50.0, "rate": 10.0, "node": 1.0, "host": 4.0}[part]
    assert predict(STEP, machine(**{part: slow})).seconds > predict(STEP, machine()).seconds


def test_every_board_has_facts_with_a_source():
    boards = {f"{name}-{size}" for name, target in TARGETS.items() for size in target.boards}
    assert set(facts.SPEEDS) == boards
    for name in boards:
        for precision in facts.SPEEDS[name].rates:
            for pair in facts.facts(name, precision).values():
                assert 0 < pair[0].value < pair[1].value
                assert all(fact.source.startswith(("https://", NO_PAGE)) for fact in pair)
                assert all(fact.note for fact in pair if fact.source.startswith(NO_PAGE))


def test_a_boards_machine_is_its_facts_in_units_of_one():
    found = facts.machine("jetson-nano-4gb", "fp16")
    assert (found.bandwidth.low, found.bandwidth.high) == (16.5e9, 18e9)
    assert found.rate.low == pytest.approx(49.9e9 / 2)
    assert found.node.high == pytest.approx(20e-6)
    for values in found:
        assert values.low < values.middle < values.high
    with pytest.raises(EdgeformerError, match="jetson-nano-4gb"):
        facts.machine("cpu", "fp32")


def test_an_orin_is_predicted_faster_than_a_nano():
    nano = predict(STEP, facts.machine("jetson-nano-4gb", "fp16"), compiled=True)
    orin = predict(STEP, facts.machine("jetson-orin-nano-8gb", "fp16"), compiled=True)
    assert orin.seconds.high < nano.seconds.high


def test_the_documents_table_is_the_one_that_the_code_makes():
    root = os.path.dirname(os.path.dirname(FOLDER))
    with open(os.path.join(root, "docs", "prediction.md"), encoding="utf-8") as file:
        assert published.table() in file.read()


def test_a_published_speed_is_judged_by_where_it_lies():
    row = published.ROWS[0]
    low, _, high = published.predicted(row).per_second()
    assert published.verdict(row._replace(tokens_per_s=(low + high) / 2)) == "inside"
    assert published.verdict(row._replace(tokens_per_s=low / 2)) == "0.50 of the low"
    assert published.verdict(row._replace(tokens_per_s=high * 2)) == "2.00 of the high"
