"""A SentencePiece vocabulary, from whichever file, and the tokenizer.json that equals it.

Equal to SentencePiece, that is. Hugging Face's converters cut a text for a unigram model at spaces
first, which loses a space in front of the text and pieces of several spaces.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Collection
from dataclasses import dataclass

from edgeformer.errors import EdgeformerError
from edgeformer.nn.tokenizer_convert.documents import (
    Part,
    added,
    bpe,
    document,
    normalizers,
    part,
    replace,
    template,
)

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
MOST_PIECES = 1 << 22
MOST_WORK = 1 << 30  # characters that are looked at to find merges
SPACE = "▁"

Merges = list[tuple[str, str]]


@dataclass(frozen=True)
class Pieces:
    """`kinds` are NORMAL, CONTROL ... by piece. `prefix`: a text gets a space in front.

    `squeeze`: of several spaces one is left, and none at the ends. `charsmap`: SentencePiece's
    compiled normalization. `merges`: where the file lists them, for BPE.
    """

    where: str
    texts: list[str]
    scores: list[float]
    kinds: list[int]
    unigram: bool
    prefix: bool
    squeeze: bool
    charsmap: bytes
    begin: int | None
    end: int | None
    merges: Merges | None = None

    def tokenizer_json(self) -> str:
        self._check()
        around = [
            [(self.texts[token_id], token_id)] if token_id is not None else []
            for token_id in (self.begin, self.end)
        ]
        return document(
            self._unigram() if self.unigram else self._bpe(),
            self._added(),
            normalizer=normalizers(self._normalizers()),
            pre_tokenizer=None,
            post_processor=template(*around),
            decoder=self._decoder(),
        )

    @property
    def _bytes(self) -> bool:
        return BYTE in self.kinds

    def _check(self) -> None:
        count = len(self.texts)
        if not 0 < count <= MOST_PIECES or not count == len(self.scores) == len(self.kinds):
            raise EdgeformerError(
                f"`{self.where}` has {count} pieces, {len(self.scores)} scores and "
                f"{len(self.kinds)} types; it must have as many of each, at most {MOST_PIECES}"
            )
        for name, token_id in (("begin", self.begin), ("end", self.end)):
            if token_id is not None and not 0 <= token_id < count:
                raise EdgeformerError(
                    f"`{self.where}`: its {name} token is {token_id}; it has {count} pieces"
                )

    def _unknown(self) -> int | None:
        return self.kinds.index(UNKNOWN) if UNKNOWN in self.kinds else None

    def _added(self) -> list[Part]:
        special = (UNKNOWN, CONTROL)
        return [
            added(token_id, text, kind in special)
            for token_id, (text, kind) in enumerate(zip(self.texts, self.kinds))
            if kind in (*special, USER_DEFINED) and text
        ]

    def _unigram(self) -> Part:
        # An id keeps its place, but no text may be made of a control token, or of "<0x0A>".
        scores = self._scores()
        lowest = min(scores) - 100.0
        vocab = [
            [text, score if kind in (NORMAL, USER_DEFINED) else lowest]
            for text, score, kind in zip(self.texts, scores, self.kinds)
        ]
        return part("Unigram", unk_id=self._unknown(), vocab=vocab, byte_fallback=self._bytes)

    def _bpe(self) -> Part:
        vocab: dict[str, int] = {}
        for token_id, (text, kind) in enumerate(zip(self.texts, self.kinds)):
            if kind == UNUSED:
                continue
            if text in vocab:
                raise EdgeformerError(
                    f"`{self.where}`: piece {text[:40]!r} stands twice, as {vocab[text]} and "
                    f"{token_id}"
                )
            vocab[text] = token_id
        unknown = self._unknown()
        return bpe(
            vocab,
            self._found_merges(vocab) if self.merges is None else self.merges,
            unk_token=None if unknown is None else self.texts[unknown],
            fuse_unk=True,
            byte_fallback=self._bytes,
        )

    def _found_merges(self, vocab: dict[str, int]) -> Merges:
        """Every way to make a piece of two others, the best piece first."""
        apart = {
            text
            for text, kind in zip(self.texts, self.kinds)
            if kind in (UNKNOWN, CONTROL, UNUSED, BYTE)
        }
        scores = dict(zip(self.texts, self._scores()))
        if sum(len(text) ** 2 for text in vocab) > MOST_WORK:
            raise EdgeformerError(f"`{self.where}`: its pieces are too long to find their merges")
        return found_merges(vocab, scores.__getitem__, apart)

    def _scores(self) -> list[float]:
        """What the user defined goes first, whatever its score; converters write -1000 there."""
        return [
            0.0 if kind == USER_DEFINED else score for score, kind in zip(self.scores, self.kinds)
        ]

    def _normalizers(self) -> list[Part]:
        found = []
        if self.charsmap:
            text = base64.b64encode(self.charsmap).decode("ascii")
            found.append(part("Precompiled", precompiled_charsmap=text))
        if self.squeeze:
            found.append(replace(rf"\A +|[ {SPACE}]+\z", "", "Regex"))
            found.append(replace(" {2,}", " ", "Regex"))
        found += [part("Prepend", prepend=SPACE)] if self.prefix else []
        found.append(replace(" ", SPACE))
        return found

    def _decoder(self) -> Part:
        parts = [replace(SPACE, " ")]
        parts += [part("ByteFallback")] if self._bytes else []
        parts.append(part("Fuse"))
        parts += [part("Strip", content=" ", start=1, stop=0)] if self.prefix else []
        return part("Sequence", decoders=parts)


def found_merges(
    vocab: dict[str, int], score: Callable[[str], float], apart: Collection[str]
) -> Merges:
    """In the order in which Hugging Face's converters write them."""
    found = []
    for text in vocab:
        if text in apart:
            continue
        pairs = [(text[:at], text[at:]) for at in range(1, len(text))]
        pairs = [
            (left, right)
            for left, right in pairs
            if left in vocab and right in vocab and left not in apart and right not in apart
        ]
        pairs.sort(key=lambda pair: (vocab[pair[0]], vocab[pair[1]]))
        found += [(score(text), len(left), len(right), left, right) for left, right in pairs]
    found.sort(key=lambda entry: entry[:3], reverse=True)
    return [(left, right) for *_, left, right in found]
