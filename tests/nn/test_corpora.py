"""How a novel's lines become a text to train on."""

import sys
from pathlib import Path

from edgeformer.nn import corpora

NOVEL = """\
SENSE AND SENSIBILITY

by Jane Austen


CHAPTER 1


The family of Dashwood had
long been   settled in _Sussex_.

"Yes,"
said he.
VOLUME II
Chapter XIV

                    * * *

[At this point in the first edition, Volume 1 ends.]

It cost £20,000.*

*Vide a letter.

THE END

A licence, and so on.
"""


def test_paragraphs_keep_the_words_and_lose_headings_notes_and_line_breaks():
    assert corpora.paragraphs(NOVEL.split("\n")) == [
        "The family of Dashwood had long been settled in Sussex.",
        '"Yes," said he.',
        "It cost £20,000.",
    ]


def test_the_end_of_a_novel_is_held_out_in_whole_paragraphs():
    novel = [f"{i:02d} " + "x" * 7 for i in range(40)]
    training, held_out = corpora.split(novel)
    assert training + held_out == novel
    assert len(held_out) == 2  # exactly 5 %
    assert len(corpora.split(novel, 0.051)[1]) == 3


def test_a_folder_without_the_novels_is_refused_with_the_way_to_get_them(tmp_path, capsys):
    assert corpora.main(["austen", str(tmp_path), "-o", str(tmp_path / "out")]) == 2
    assert "apt-get download r-cran-janeaustenr" in capsys.readouterr().err


def test_without_rdata_the_error_has_the_command_of_the_models_page(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "rdata", None)
    for name in ("Rdata.rdx", "Rdata.rdb"):
        (tmp_path / name).write_bytes(b"x")
    assert corpora.main(["austen", str(tmp_path), "-o", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert "takes the package rdata, which is not installed" in said
    command = said.split("`")[1]
    page = Path(__file__).parents[2] / "export/models/nano-austen/README.md"
    assert command in page.read_text().splitlines()
    assert not (tmp_path / "out" / "austen.txt").exists()
