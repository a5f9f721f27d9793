"""What becomes of a text where a pattern matches."""

from typing import Iterable, List, Tuple

from edgeformer.text.pattern import Span

# Those of Hugging Face's pre-tokenizers.
BEHAVIORS = ("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous")


def cut(text: str, spans: Iterable[Span], behavior: str, invert: bool = False) -> List[str]:
    """The pieces of text that are not empty; with invert, what lies between spans is the match."""
    if behavior == "Isolated":
        return _isolated(text, spans)
    parts = _covering(len(text), spans, invert)
    if behavior == "Removed":
        return [text[start:end] for start, end, matched in parts if start < end and not matched]
    if behavior == "Contiguous":
        parts = _joined(parts, lambda matched, before: matched == before)
    elif behavior == "MergedWithPrevious":
        parts = _joined(parts, lambda matched, before: matched and not before)
    else:
        turned = [(-end, -start, matched) for start, end, matched in reversed(parts)]
        joined = _joined(turned, lambda matched, before: matched and not before)
        parts = [(-end, -start, matched) for start, end, matched in reversed(joined)]
    return [text[start:end] for start, end, _ in parts if start < end]


def cut_out(text: str, spans: Iterable[Span], content: str) -> str:
    """text with content in place of each span."""
    pieces = []
    done = 0
    for start, end in spans:
        pieces += (text[done:start], content)
        done = end
    return "".join(pieces) + text[done:]


def _isolated(text: str, spans: Iterable[Span]) -> List[str]:
    pieces = []
    done = 0
    for start, end in spans:
        if done < start:
            pieces.append(text[done:start])
        if start < end:
            pieces.append(text[start:end])
        done = end
    if done < len(text):
        pieces.append(text[done:])
    return pieces


def _covering(length: int, spans: Iterable[Span], invert: bool) -> List[Tuple[int, int, bool]]:
    """The spans and what lies between them, each with whether it counts as matched."""
    parts = []
    done = 0
    for start, end in spans:
        if done < start:
            parts.append((done, start, invert))
        parts.append((start, end, not invert))
        done = end
    if done < length:
        parts.append((done, length, invert))
    return parts


def _joined(parts, joins) -> List[Tuple[int, int, bool]]:
    """Parts, each joined to the one before it where joins(its match, the match before) says so."""
    result = []
    before = None
    for start, end, matched in parts:
        if result and joins(matched, before):
            result[-1] = (result[-1][0], end, matched)
        else:
            result.append((start, end, matched))
        before = matched
    return result
