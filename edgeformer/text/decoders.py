"""Read the decoder of a tokenizer.json: how tokens become text, as stages for a stream."""

from typing import Any, List

from edgeformer.text.cutting import cut_out
from edgeformer.text.parts import Part
from edgeformer.text.pre_tokenizers import prepend_scheme
from edgeformer.text.stages import (
    ByteFallback,
    ByteLetters,
    Changed,
    EndOfWord,
    NewStage,
    StripStart,
    strip_start,
)

_CLEANED = [
    (" .", "."),
    (" ?", "?"),
    (" !", "!"),
    (" ,", ","),
    (" ' ", "'"),
    (" n't", "n't"),
    (" 'm", "'m"),
    (" do not", " don't"),
    (" 's", "'s"),
    (" 've", "'ve"),
    (" 're", "'re"),
]


def read_decoder(value: Any, path: str) -> List[NewStage]:
    if value is None:
        return [lambda after: Changed(after, lambda token: " " + token, lambda token: token)]
    stages: List[NewStage] = []
    state = _Read(stages)
    state.read(value, path)
    return stages


class _Read:
    """What has been read: after `joined` there are no tokens any more, only a text."""

    def __init__(self, stages: List[NewStage]) -> None:
        self.stages = stages
        self.joined = False
        self.has_bytes = False

    def read(self, value: Any, path: str) -> None:
        part = Part(value, "decoder", path)
        if part.type == "Sequence":
            for each in part.parts("decoders"):
                self.read(each, path)
            return
        if part.type == "Fuse":
            self.joined = True
        elif part.type in ("Strip", "Replace") and self.joined:
            self.stages.append(_of_text(part))
        elif part.type in _READERS and not self.joined and not self.has_bytes:
            self.stages.append(_READERS[part.type](part))
            self.joined = part.type == "ByteLevel"
            self.has_bytes = part.type == "ByteFallback"
        else:
            raise part.unknown("what comes before it" if self.stages else "")
        part.finish()


def _of_text(part: Part) -> NewStage:
    """What can be done to a text of which only the beginning is there."""
    if part.type == "Replace":
        kind, pattern = part.pattern()
        content = part.content("content")
        if kind == "Regex" or len(pattern) > 1:
            raise part.unknown("a pattern of more than one character, after Fuse")
        return lambda after: Changed(after, lambda text: text.replace(pattern, content))
    character, start = part.character("content"), part.count("start")
    if part.count("stop"):
        raise part.unknown("stop, after Fuse")
    return lambda after: StripStart(after, character, start)


def _byte_level(part: Part) -> NewStage:
    part.skip("add_prefix_space", "trim_offsets", "use_regex")
    return ByteLetters


def _metaspace(part: Part) -> NewStage:
    mark, scheme = part.character("replacement"), prepend_scheme(part)
    part.skip("split")
    first = None if scheme == "never" else lambda token: token.replace(mark, "")
    return lambda after: Changed(after, lambda token: token.replace(mark, " "), first)


def _replace(part: Part) -> NewStage:
    kind, pattern = part.pattern()
    content = part.content("content")
    if kind == "String":
        return lambda after: Changed(after, lambda token: token.replace(pattern, content))
    return lambda after: Changed(after, lambda token: cut_out(token, pattern.spans(token), content))


def _strip(part: Part) -> NewStage:
    character, start, stop = part.character("content"), part.count("start"), part.count("stop")

    def stripped(token: str) -> str:
        token = strip_start(token, character, start)
        return strip_start(token[::-1], character, stop)[::-1]

    return lambda after: Changed(after, stripped)


def _word_piece(part: Part) -> NewStage:
    prefix, cleanup = part.text("prefix", "##"), part.flag("cleanup", True)

    def cleaned(token: str) -> str:
        for old, new in _CLEANED if cleanup else ():
            token = token.replace(old, new)
        return token

    def change(token: str) -> str:
        joined = token.startswith(prefix)
        return cleaned(token[len(prefix) :] if joined else " " + token)

    return lambda after: Changed(after, change, cleaned)


def _end_of_word(part: Part) -> NewStage:
    suffix = part.text("suffix", "</w>")
    if not suffix:
        raise part.unknown("an empty suffix")
    return lambda after: EndOfWord(after, suffix)


def _byte_fallback(part: Part) -> NewStage:
    return ByteFallback


_READERS = {
    "ByteLevel": _byte_level,
    "ByteFallback": _byte_fallback,
    "Metaspace": _metaspace,
    "Replace": _replace,
    "Strip": _strip,
    "WordPiece": _word_piece,
    "BPEDecoder": _end_of_word,
}
