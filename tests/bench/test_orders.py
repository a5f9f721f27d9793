"""Who follows whom, counted."""

from collections import Counter

import pytest

from edgeformer.bench.orders import balanced


@pytest.mark.parametrize("cases", range(1, 14))
def test_each_case_follows_each_case_and_itself_equally_often(cases):
    rows = balanced(cases)
    assert all(sorted(row) == list(range(cases)) for row in rows)
    turns = [case for row in rows for case in row]
    follows = Counter(zip(turns, turns[1:] + turns[:1]))  # once round: another time follows
    assert len(follows) == cases**2
    assert set(follows.values()) == {len(rows) // cases}


def test_two_cases_alternate_and_many_have_no_more_rows_than_two_for_each():
    assert balanced(2, 4) == [[0, 1], [1, 0], [0, 1], [1, 0]]
    assert [len(balanced(cases)) for cases in (1, 2, 3, 8, 12)] == [1, 2, 6, 16, 24]


def test_more_rows_are_whole_repetitions():
    assert len(balanced(3, 15)) == 18 and len(balanced(2, 15)) == 16
    assert balanced(3, 15) == balanced(3) * 3
