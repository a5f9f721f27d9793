"""Packed vocabularies and merges give what the dicts they were made from give."""

import random
import sys

import pytest

from edgeformer.text.packed import PackedMerges, PackedTokens, PackedVocab

LETTERS = "ab \u0120\u00e9\u65e5\U0001f600\udc41"  # one to four bytes, and half a surrogate pair


def words(source, count):
    found = {
        "".join(source.choice(LETTERS) for _ in range(source.randrange(7))) for _ in range(count)
    }
    return sorted(found)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 400])
def test_a_vocabulary_finds_its_tokens_and_no_others(count):
    source = random.Random(count)
    every = words(source, 3 * count + 9)
    source.shuffle(every)
    ids = source.sample(range(2 * count + 1), count)  # in no order, with gaps
    vocab = dict(zip(every, ids))
    packed = PackedVocab(vocab)
    assert len(vocab) == count and len(every) > count
    for word in every:
        assert packed.get(word) == vocab.get(word) and (word in packed) == (word in vocab)
        assert packed.get(word, -7) == vocab.get(word, -7)
    by_id = {token_id: token for token, token_id in vocab.items()}
    assert packed.count == max(ids, default=-1) + 1
    assert [packed.token(at) for at in range(-3, 2 * count + 5)] == [
        by_id.get(at) for at in range(-3, 2 * count + 5)
    ]
    assert all(packed[token] == token_id for token, token_id in vocab.items())


def test_a_token_that_is_not_there_is_a_key_error_and_the_empty_one_may_be_there():
    packed = PackedVocab({"": 3, "a": 1})
    assert packed[""] == 3 and packed.token(3) == "" and packed.token(0) is None
    with pytest.raises(KeyError, match="b"):
        packed["b"]
    assert 3 not in packed


def test_tokens_of_the_same_hash_are_told_apart():
    class Same(str):
        def __hash__(self):
            return 5

    vocab = {Same("t%d" % at): at for at in range(50)}
    packed = PackedVocab(vocab)
    assert [packed.get(Same("t%d" % at)) for at in range(60)] == [*range(50), *[None] * 10]


def test_tokens_by_id_are_those_of_the_vocabulary_and_what_was_put_over_them():
    tokens = PackedTokens(PackedVocab({"a": 0, "b": 2}), 5)
    tokens[2] = "<b>"
    tokens[4] = ""
    assert [tokens[at] for at in range(len(tokens))] == ["a", None, "<b>", None, ""]
    assert len(PackedTokens(PackedVocab({"a": 7}), 0)) == 8


@pytest.mark.parametrize("count", [0, 1, 2, 500])
def test_merges_find_their_pairs_and_no_others(count):
    source = random.Random(count)
    # The largest pair and merge there are, and pairs that fall into few places.
    merges = {(2 << 43) - 1 - at * (2 * count + 1): (1 << 60) + at for at in range(count // 2)}
    while len(merges) < count:
        merges[source.randrange(1 << 44)] = source.randrange(1 << 40)
    packed = PackedMerges(merges)
    assert all(packed.get(pair) == merge for pair, merge in merges.items())
    others = [source.randrange(1 << 44) for _ in range(2000)] + [pair + 1 for pair in merges] + [0]
    assert all(packed.get(pair) == merges.get(pair, -1) for pair in others)


def test_they_take_a_third_of_the_memory_of_dicts():
    vocab = {"token %d" % at: at for at in range(20000)}
    merges = {at << 22 | at + 1: at << 22 | at for at in range(20000)}
    texts, found = PackedVocab(vocab), PackedMerges(merges)
    held = [texts._text, texts._ends, texts._places, texts._is_token, found._pairs, found._merges]
    whole = sys.getsizeof(vocab) + sys.getsizeof(merges)
    whole += sum(
        sys.getsizeof(each) for each in [*vocab, *vocab.values(), *merges, *merges.values()]
    )
    assert 3 * sum(map(sys.getsizeof, held)) < whole
