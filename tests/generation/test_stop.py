"""Stop strings over text in pieces: nothing of them leaks, nothing else is lost."""

import itertools
import sys

import pytest

from edgeformer.generation.stop import StopText


def run(stops, pieces):
    """(what was shown after each piece, what flush gave, whether it stopped)."""
    stop = StopText(stops)
    shown = []
    for piece in pieces:
        text, stopped = stop.push(piece)
        shown.append(text)
        if stopped:
            return shown, "", True
    return shown, stop.flush(), False


def test_a_stop_string_over_several_tokens_leaks_nothing():
    assert run(["DEFGHIJ"], ["DEF", "G", "HI", "J"]) == (["", "", "", ""], "", True)
    assert run(["DEF"], ["ABCD", "E", "FGH"]) == (["ABC", "", ""], "", True)


def test_text_that_only_looked_like_a_stop_comes_out_at_the_end():
    assert run(["asX"], ["ple", "as"]) == (["ple", ""], "as", False)
    assert run(["asX"], ["ple", "as", "e"]) == (["ple", "", "ase"], "", False)


def test_an_overlap_is_not_missed():
    shown, rest, stopped = run(["aab"], ["a", "a", "a", "b", "c"])
    assert ("".join(shown) + rest, stopped) == ("a", True)
    shown, rest, stopped = run(["ababc"], list("abababc"))
    assert ("".join(shown) + rest, stopped) == ("ab", True)


def test_only_what_can_still_become_a_stop_is_held():
    stop = StopText(["\n\n", "User:"])
    assert stop.push("a\nb\n") == ("a\nb", False)
    assert stop.push("Us") == ("\n", False)
    assert stop.push("ual") == ("Usual", False)


def test_the_first_stop_to_be_complete_ends_the_text():
    assert run(["END", "STOP"], ["a STOP b END"]) == (["a "], "", True)
    assert run(["END", "STOP"], ["a END b STOP"]) == (["a "], "", True)


def test_of_two_that_are_complete_at_once_the_longer_one_ends_the_text():
    for stops in (["bc", "abc"], ["abc", "bc"]):
        assert run(stops, ["xab", "c"]) == (["x", ""], "", True)


@pytest.mark.parametrize("stops", [["ab"], ["aab", "ba"], ["abab", "bb"], ["abba", "bb"], ["b"]])
def test_the_result_does_not_depend_on_where_tokens_are_cut(stops):
    for text in map("".join, itertools.product("ab", repeat=7)):
        results = set()
        for cuts in itertools.product([0, 1], repeat=6):
            pieces = [text[0]]
            for character, cut in zip(text[1:], cuts):
                if cut:
                    pieces.append(character)
                else:
                    pieces[-1] += character
            shown, rest, stopped = run(stops, pieces)
            results.add(("".join(shown) + rest, stopped))
        assert len(results) == 1
        shown, stopped = results.pop()
        assert stopped == any(stop in text for stop in stops)
        assert text.startswith(shown)
        assert not any(stop in shown for stop in stops)


def test_without_stop_strings_text_passes_at_once():
    assert run([], ["a", "", "bc"]) == (["a", "", "bc"], "", False)


def lines_of(function):
    """Lines of Python that it runs: what it costs, on any machine."""
    lines = []

    def trace(frame, event, _):
        lines.append(event)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function()
    finally:
        sys.settrace(before)
    return lines.count("line")


@pytest.mark.parametrize("stops", [["\n\n", "END"], ["a" * 300 + "b"], ["aab" * 99 + "c", "x"]])
def test_a_token_costs_the_same_in_a_long_answer_as_in_a_short_one(stops):
    stop = StopText(stops)
    counts = [lines_of(lambda: stop.push("aaba" * 10)) for _ in range(2000)]
    assert max(counts[-500:]) <= max(counts[:500])
    # Each character falls back at most as far as the characters before it advanced.
    assert sum(counts) / (2000 * 40) <= 20 * len(stops)


def test_a_stop_string_of_100000_characters_is_no_burden():
    stop = StopText(["a" * 100000 + "b"])
    counts = [lines_of(lambda: stop.push("a" * 100)) for _ in range(20)]
    assert max(counts) <= 100 * 20
    assert stop.push("c") == ("a" * 2000 + "c", False)
