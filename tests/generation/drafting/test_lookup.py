"""Drafts from the text itself."""

from time import process_time

from edgeformer.generation.drafting.lookup import Lookup


def begun(ids):
    drafter = Lookup()
    drafter.begin(ids)
    return drafter


def test_it_drafts_what_followed_the_same_tokens_before():
    drafter = begun([1, 2, 3, 4, 5, 6, 9, 2, 3])
    assert drafter.draft(4) == [4, 5, 6, 9]


def test_the_longest_agreement_wins_over_the_most_recent():
    drafter = begun([1, 2, 3, 4, 70, 8, 4, 80, 1, 2, 3, 4])
    assert drafter.draft(1) == [70]


def test_a_text_that_repeats_nothing_has_no_draft():
    assert begun([1, 2, 3, 4]).chances(8) == []


def test_a_loop_is_drafted_beyond_the_end_of_the_text():
    drafter = begun([7, 8, 9, 7, 8, 9])
    assert drafter.draft(8) == [7, 8, 9, 7, 8, 9, 7, 8]


def test_it_follows_a_place_that_goes_on_agreeing_and_leaves_one_that_does_not():
    drafter = begun([1, 2, 3, 4, 5, 1, 2])
    drafter.extend(3)
    assert drafter.draft(2) == [4, 5]
    drafter.extend(2)  # after 2 came 3, twice
    assert drafter.draft(1) == [3]
    drafter.extend(99)
    assert drafter.chances(8) == []


def test_longer_agreement_is_trusted_more():
    drafter = begun([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 1, 2, 3, 4])
    chances = drafter.chances(8)
    assert chances == sorted(chances) and chances[0] < chances[-1]


def test_wrong_guesses_lower_the_chances_without_any_draft():
    drafter = begun([1, 2])
    before = begun([1, 2, 1]).chances(1)[0]
    for token in range(100, 160):
        drafter.extend(1)  # what followed 1 the last time is never what follows now
        drafter.extend(token)
    drafter.extend(1)
    assert drafter.chances(1)[0] < before / 2


def test_a_token_costs_as_much_after_40000_others():
    drafter = begun([0])

    def seconds(start):
        best = 1.0
        for block in range(start, start + 2000, 200):
            started = process_time()
            for token in range(block, block + 200):
                drafter.extend(token * token % 1009)
                drafter.chances(8)
            best = min(best, process_time() - started)
        return best

    early = seconds(0)
    for token in range(2000, 40000):
        drafter.extend(token * token % 1009)
    assert seconds(40000) < 8 * early  # a search of the text would take 20 times as long, or more
