"""N-gram models: counts, the file, and drafts from it."""

import json
import os
import struct

import numpy as np
import pytest

import edgeformer
from edgeformer import EdgeformerError
from edgeformer.__main__ import main
from edgeformer.bundle import Bundle
from edgeformer.generation.drafting import Either, ngram_file
from edgeformer.generation.drafting.lookup import Lookup
from edgeformer.generation.drafting.ngrams import NgramDrafter, Ngrams, count_ngrams
from edgeformer.generation.drafting.pace import OTHERS
from tests import bundles

TEXT = [1, 2, 3, 4, 1, 2, 3, 5, 1, 2, 3, 4, 9, 2, 7]
MANIFEST = Bundle.open(bundles.ROPE).manifest


@pytest.fixture
def path(tmp_path):
    found = str(tmp_path / "text.ngrams")
    ngram_file.save(found, ngram_file.train(np.array(TEXT), MANIFEST), MANIFEST)
    return found


def model_of(text, most=1000):
    return Ngrams(count_ngrams(np.array(text), most))


def test_counts_are_those_of_a_plain_count():
    random = np.random.RandomState(3)
    text = random.randint(0, 6, 400).tolist()
    for length, contexts in enumerate(count_ngrams(np.array(text), 1000), 1):
        counts = {}
        for start in range(len(text) - length):
            followed = counts.setdefault(tuple(text[start : start + length]), {})
            token = text[start + length]
            followed[token] = followed.get(token, 0) + 1
        assert len(contexts.keys) == len(counts)
        ngrams = model_of(text)
        for context, followed in counts.items():
            hits = max(followed.values())
            likeliest = min(token for token, count in followed.items() if count == hits)
            share = hits / (sum(followed.values()) + 1)
            assert ngrams.after(context) == (likeliest, length, share)


def test_the_longest_known_context_decides_and_shorter_ones_where_it_is_unknown():
    ngrams = model_of(TEXT)
    assert ngrams.after((1, 2, 3))[:2] == (4, 3)
    assert ngrams.after((9, 9, 2))[:2] == (7, 2)
    assert ngrams.after((5, 9, 3))[:2] == (4, 1)
    assert ngrams.after((60, 61, 62)) is None


def test_only_the_most_frequent_contexts_are_kept():
    kept = count_ngrams(np.array(TEXT), 2)
    assert [len(contexts.keys) for contexts in kept] == [2, 2, 2]
    assert kept[0].keys.tolist() == [1, 2]  # of equally frequent ones the lower
    assert int(kept[0].all.max()) == 4


def test_a_drafter_follows_the_likeliest_tokens():
    drafter = NgramDrafter(model_of(TEXT * 5))
    drafter.begin([8, 1, 2])
    chances = drafter.chances(4)
    assert len(chances) >= 2 and drafter.draft(2) == [3, 4]


def test_a_text_of_another_kind_lowers_the_chances():
    drafter = NgramDrafter(model_of(TEXT * 5))
    drafter.begin([1, 2, 3])
    before = drafter.chances(1)[0]
    for _ in range(30):
        for token in (6, 1, 2, 3):
            drafter.extend(token)
    assert drafter.chances(1)[0] < before / 2


def test_of_two_drafters_the_more_hopeful_one_drafts():
    both = Either([Lookup(), NgramDrafter(model_of(TEXT * 5))])
    both.begin([9, 1, 2, 3])
    both.best(3, OTHERS)
    assert both.draft(1) == [4]
    both = Either([Lookup(), NgramDrafter(model_of([60, 61] * 5))])
    both.begin(list(range(20, 40)) * 2 + [20, 21])
    both.best(3, OTHERS)
    assert both.draft(3) == [22, 23, 24]


def test_a_file_gives_what_was_counted(path):
    found = ngram_file.load(path, MANIFEST)
    for ours, theirs in zip(found.lengths, count_ngrams(np.array(TEXT), 1000)):
        for name in ours._fields:
            assert (getattr(ours, name) == getattr(theirs, name)).all()


def test_a_file_of_another_tokenizer_is_refused_by_name(path):
    other = Bundle.open(bundles.LEARNED).manifest
    with pytest.raises(
        EdgeformerError, match=r"'tiny-rope', whose tokenizer is not .*tiny-learned"
    ):
        ngram_file.load(path, other)


def rewritten(path, change):
    """The file with another header, or other bytes behind it, which agree with its hash."""
    with open(path, "rb") as file:
        raw = file.read()
    length = struct.unpack("<Q", raw[:8])[0]
    header, data = json.loads(raw[8 : 8 + length].decode()), bytearray(raw[8 + length :])
    change(header, data)
    header["__metadata__"]["sha256"] = ngram_file.hashlib.sha256(bytes(data)).hexdigest()
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + bytes(data))


DAMAGE = {
    "no drafter": lambda header, data: header["__metadata__"].update(kind="x"),
    "where they belong": lambda header, data: header["hits.1"].update(dtype="F32"),
    "how long": lambda header, data: header.pop("keys.2"),
    "more than its arrays": lambda header, data: data.extend(b"1234"),
    "not in order": lambda header, data: data.__setitem__(slice(0, 8), b"\xff" * 8),
    "drafts tokens outside": lambda header, data: data.__setitem__(
        slice(*(header["likeliest.1"]["data_offsets"][0] + n for n in (0, 4))), b"\xff\xff\xff\x7f"
    ),
    "counts are impossible": lambda header, data: data.__setitem__(
        slice(*(header["hits.3"]["data_offsets"][0] + n for n in (0, 4))), bytes(4)
    ),
}


@pytest.mark.parametrize("why", sorted(DAMAGE))
def test_a_damaged_file_is_refused(path, why):
    rewritten(path, DAMAGE[why])
    words = "it is no edgeformer drafter" if why == "no drafter" else why
    with pytest.raises(EdgeformerError, match=words):
        ngram_file.load(path, MANIFEST)


def test_a_file_that_is_cut_or_changed_anywhere_is_refused(path):
    with open(path, "rb") as file:
        raw = file.read()
    for end in (0, 4, 50, len(raw) - 1):
        with open(path, "wb") as file:
            file.write(raw[:end])
        with pytest.raises(EdgeformerError):
            ngram_file.load(path, MANIFEST)
    for at in range(len(raw) - 300, len(raw), 7):
        with open(path, "wb") as file:
            file.write(raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :])
        with pytest.raises(EdgeformerError, match="sha256"):
            ngram_file.load(path, MANIFEST)


def test_the_command_makes_a_file_that_streams_draft_with(tmp_path, capsys):
    with edgeformer.load(bundles.ROPE) as model:
        plain = model.generate("abc", max_new_tokens=24)
        text = tmp_path / "text.txt"
        text.write_text(("abc" + plain.text + "\n") * 4, encoding="utf-8")
        file = str(tmp_path / "out.ngrams")
        assert main(["drafter", bundles.ROPE, str(text), "-o", file]) == 0
        assert "bytes, in" in capsys.readouterr().err
        found = model.generate("abc", max_new_tokens=24, draft=file)
        assert found.tokens == plain.tokens
    assert main(["generate", bundles.ROPE, "abc", "--max-new-tokens", "24", "--draft", file]) == 0
    assert capsys.readouterr().out == plain.text + "\n"


@pytest.mark.parametrize(
    "words, why",
    [
        (["no-such-file", "-o", "x"], "cannot be read"),
        (["EMPTY", "-o", "x"], "n-grams need more than 3"),
        (["TEXT", "-o", "x", "--most", "0"], "must be 1 to"),
        (["TEXT", "-o", os.path.join("no", "folder")], "cannot be written"),
    ],
)
def test_a_mistake_is_told(tmp_path, monkeypatch, capsys, words, why):
    monkeypatch.chdir(str(tmp_path))
    (tmp_path / "EMPTY").write_text("")
    (tmp_path / "TEXT").write_text("she was the youngest of the two daughters")
    assert main(["drafter", bundles.ROPE, *words]) == 2
    assert why in capsys.readouterr().err
