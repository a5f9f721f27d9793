"""Texts to train on: `python -m edgeformer.nn.corpora austen FOLDER -o OUT`.

The demo model reads Jane Austen's six novels as Debian's package r-cran-janeaustenr carries them
(the novels are in the public domain). Getting the package is the user's step: nothing here
reaches for the network. The same package gives the same bytes.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
import zlib
from pathlib import Path

from edgeformer.errors import EdgeformerError

NOVELS = (  # in order of writing
    "northangerabbey",
    "sensesensibility",
    "prideprejudice",
    "mansfieldpark",
    "emma",
    "persuasion",
)
HELD_OUT = 0.05  # of the characters of each novel: its end
SAMPLE = "prideprejudice"

_GET_PACKAGE = (
    "apt-get download r-cran-janeaustenr && dpkg-deb -x r-cran-janeaustenr_*.deb janeausten, "
    "then give janeausten/usr/lib/R/site-library/janeaustenr/data"
)
# In no extra: it brings pandas and xarray, and only who makes the demo model again needs it.
_GET_RDATA = "python -m pip install rdata==1.1.0"
_HEADING = re.compile(r"(chapter|volume) +([ivxl]+|[0-9]+)", re.IGNORECASE)
_END = re.compile(r"(the end|finis)\.?|a note on the text", re.IGNORECASE)
_EDITOR = re.compile(r"\[(at this point in|end volume)[^\]]*\]?", re.IGNORECASE)


def read_austen(folder: Path) -> dict[str, list[str]]:
    """The novels as lists of paragraphs, from the folder that holds Rdata.rdx and Rdata.rdb.

    Both are compressed R objects: the index names, for each novel, a place in Rdata.rdb, and
    there stand a length of 4 bytes and the novel's lines.
    """
    try:
        index, data = (folder / "Rdata.rdx").read_bytes(), (folder / "Rdata.rdb").read_bytes()
    except OSError as error:
        raise EdgeformerError(f"cannot read the novels: {error}; {_GET_PACKAGE}") from error
    try:
        import rdata
    except ModuleNotFoundError as error:
        raise EdgeformerError(
            f"reading R's data files takes the package {error.name}, which is not installed; run "
            f"`{_GET_RDATA}`, with Python 3.11 or newer"
        ) from error

    def value(packed: bytes):
        raw = zlib.decompress(packed, wbits=zlib.MAX_WBITS | 32)  # gzip or zlib
        return rdata.conversion.convert(rdata.parser.parse_data(raw, extension=".rds"))

    places = {str(name): place for name, place in value(index)["variables"].items()}
    novels = {}
    for name in NOVELS:
        start, length = (int(n) for n in places[name])
        lines = [str(line) for line in value(data[start + 4 : start + length])]
        novels[name] = paragraphs(lines)
    return novels


def paragraphs(lines: list[str]) -> list[str]:
    """One string a paragraph, from the first chapter to the end, headings and notes left out.

    Line breaks, indentation and the underscores of italics go; words and punctuation stay.
    """
    found, words, started = [], [], False
    for line in [*lines, ""]:
        line = line.strip()
        if _END.fullmatch(line):
            break
        if _HEADING.fullmatch(line):
            started, line = True, ""
        if line:
            words += line.replace("_", "").split()
            continue
        paragraph = " ".join(words)
        words = []
        if started and re.search("[A-Za-z]", paragraph) and not _is_note(paragraph):
            found.append(paragraph.replace("*", ""))
    if words:
        found.append(" ".join(words))
    return found


def _is_note(paragraph: str) -> bool:
    return bool(_EDITOR.match(paragraph)) or paragraph.startswith("*")


def split(novel: list[str], held_out: float = HELD_OUT) -> tuple[list[str], list[str]]:
    """(training, held out): whole paragraphs, at least this share of the characters held out."""
    total, kept = sum(map(len, novel)), 0
    for i in range(len(novel) - 1, -1, -1):
        kept += len(novel[i])
        if kept >= held_out * total:
            return novel[:i], novel[i:]
    return [], novel


def write_austen(folder: Path, out: Path) -> None:
    """Write the text to train on, the held-out text, and the part of it that ships as a sample.

    One paragraph a line.
    """
    out.mkdir(parents=True, exist_ok=True)
    parts = {name: split(novel) for name, novel in read_austen(folder).items()}
    texts = {
        "austen.txt": [line for part in parts.values() for line in part[0]],
        "austen-held-out.txt": [line for part in parts.values() for line in part[1]],
        "held_out.txt": parts[SAMPLE][1],
    }
    for name, lines in texts.items():
        text = "".join(line + "\n" for line in lines)
        data = text.encode("utf-8")
        (out / name).write_bytes(data)
        digest = hashlib.sha256(data).hexdigest()
        print(f"{out / name}: {len(text)} characters, sha256 {digest}", file=sys.stderr)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m edgeformer.nn.corpora", description=__doc__.split("\n\n")[0]
    )
    parser.add_argument("corpus", choices=["austen"], help="which text")
    parser.add_argument("folder", type=Path, help="where it lies: " + _GET_PACKAGE)
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder to write to")
    options = parser.parse_args(arguments)
    try:
        write_austen(options.folder, options.output)
    except EdgeformerError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
