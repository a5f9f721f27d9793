"""Texts that know which of their characters the template wrote.

A plain str is what the user wrote. A Traced str marks characters as the template's own; every
operation of `text_methods` carries the marks along, and one that cannot gives a plain str. So a
lost mark takes trust away and never grants it: a control marker that a user typed, or that falls
together from pieces of what users typed, stays ordinary text.
"""

from typing import Iterable, List, Optional

from edgeformer.text.template.limits import Budget


class Traced(str):
    """A text and, for each character, 1 where it is the template's and 0 where it is the user's."""

    __slots__ = ("mask",)

    def __new__(cls, text: str, mask: bytes) -> "Traced":
        self = str.__new__(cls, text)
        self.mask = mask
        return self


class Html(Traced):
    """What |safe and |escape give. jinja2 escapes what is joined to it; here it only prints."""

    __slots__ = ()


def trusted(text: str) -> Traced:
    return Traced(text, b"\1" * len(text))


def mask_of(text: str) -> bytes:
    return text.mask if isinstance(text, Traced) else bytes(len(text))


def marked(text: str, mask: bytes) -> str:
    """The text with this mask; a plain str where the mask is all user."""
    return Traced(text, mask) if 1 in mask else str.__str__(text)


def is_trusted(text: str) -> bool:
    return 0 not in mask_of(text)


def derived(result: str, *sources: str) -> str:
    """A text made of others in a way that is not followed: trusted if all of them are."""
    return trusted(result) if all(is_trusted(source) for source in sources) else result


def cut(text: str, start: Optional[int], stop: Optional[int], step: Optional[int] = None) -> str:
    """text[start:stop:step]"""
    part = slice(start, stop, step)
    made = str.__getitem__(text, part)
    # A plain text's mask would be as long as all of it.
    return marked(made, text.mask[part]) if isinstance(text, Traced) else made


def joined(budget: Budget, separator: str, pieces: Iterable[str]) -> str:
    pieces = list(pieces)
    gaps = max(0, len(pieces) - 1)
    budget.text(sum(len(piece) for piece in pieces) + gaps * len(separator))
    text = str.join(separator, pieces)
    mask = mask_of(separator).join([mask_of(piece) for piece in pieces])
    return marked(text, mask)


def laid_out(text: str, pieces: Iterable[str], gap: int) -> List[str]:
    """Pieces of text that follow each other, gap characters apart, with their marks."""
    result = []
    position = 0
    for piece in pieces:
        result.append(cut(text, position, position + len(piece)))
        position += len(piece) + gap
    return result


def words(text: str, pieces: Iterable[str]) -> List[str]:
    """Pieces of text with nothing but white space between them, with their marks."""
    result = []
    position = 0
    for piece in pieces:
        position = text.index(piece, position)
        result.append(cut(text, position, position + len(piece)))
        position += len(piece)
    return result
