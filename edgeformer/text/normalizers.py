"""Change a text before it is cut: normal forms, case, accents, spaces written as a sign."""

from typing import Any, Callable, List, NamedTuple, Optional

from edgeformer.errors import EdgeformerError
from edgeformer.text.byte_letters import spelled
from edgeformer.text.code_points import contains, single, table, union
from edgeformer.text.cutting import cut_out
from edgeformer.text.letters import CharacterMap, lower_case, normal_form
from edgeformer.text.parts import Part
from edgeformer.text.pattern import Pattern

Step = Callable[[str], str]

# A character can have 18 in another normal form.
_MOST_GROWTH = 100
_FORMS = ("NFC", "NFD", "NFKC", "NFKD")


class Normalizer(NamedTuple):
    """keeps_start: the first character of a text is never taken away."""

    steps: List[Step]
    keeps_start: bool

    def __call__(self, text: str) -> str:
        most = _MOST_GROWTH * (len(text) + _MOST_GROWTH)
        for step in self.steps:
            text = step(text)
            if len(text) > most:
                raise EdgeformerError(
                    "the tokenizer's normalizer made more than %d characters of a text; it cannot "
                    "be meant so: get the tokenizer again from where the model came from" % most
                )
        return text


def read_normalizer(value: Any, path: str) -> Optional[Normalizer]:
    if value is None:
        return None
    part = Part(value, "normalizer", path)
    if part.type == "Sequence":
        inner = [read_normalizer(each, path) for each in part.parts("normalizers")]
        found = [each for each in inner if each is not None]
        steps = [step for each in found for step in each.steps]
        return Normalizer(steps, all(each.keeps_start for each in found))
    if part.type in _FORMS:
        normalizer = Normalizer([normal_form(part.type)], True)
    elif part.type in _READERS:
        normalizer = _READERS[part.type](part)
    else:
        raise part.unknown()
    part.finish()
    return normalizer


def _lower_case(part: Part) -> Normalizer:
    return Normalizer([lower_case()], True)


def _byte_level(part: Part) -> Normalizer:
    return Normalizer([spelled], True)


def _prepend(part: Part) -> Normalizer:
    front = part.content("prepend")
    return Normalizer([lambda text: front + text if text else text], True)


def _replace(part: Part) -> Normalizer:
    kind, pattern = part.pattern()
    content = part.content("content")
    if kind == "String":
        return Normalizer([lambda text: text.replace(pattern, content)], bool(content))

    return Normalizer([lambda text: cut_out(text, pattern.spans(text), content)], bool(content))


def _strip(part: Part) -> Normalizer:
    left, right = part.flag("strip_left", True), part.flag("strip_right", True)
    spaces = Pattern.of_sets(table("SPACES"), repeated=True)

    def stripped(text: str) -> str:
        start, end = 0, len(text)
        found = list(spaces.spans(text))
        if left and found and found[0][0] == 0:
            start = found[0][1]
        if right and found and found[-1][1] == end:
            end = found[-1][0]
        return text[start:end]

    return Normalizer([stripped], not left)


def _strip_accents(part: Part) -> Normalizer:
    return Normalizer([_without("MARKS", "M")], False)


def _nmt(part: Part) -> Normalizer:
    """Control characters go, and every kind of space becomes the plain one."""
    gone = union((0x1, 0x9), (0xB, 0xC), (0xE, 0x20), single(0x7F), single(0x8F), single(0x9F))
    spaces = union((0x9, 0xB), (0xC, 0xE), single(0x20), single(0x1680), (0x200B, 0x2010))
    spaces = union(spaces, (0x2028, 0x202A), single(0x2581), single(0xFEFF), single(0xFFFD))
    return Normalizer([_mapped(lambda c: "" if contains(gone, c) else _space(spaces, c))], False)


def _bert(part: Part) -> Normalizer:
    steps: List[Step] = []
    if part.flag("clean_text", True):
        control, spaces = table("CONTROL", "Cc", "Cf", "Co"), table("SPACES")
        steps.append(_mapped(lambda c: "" if contains(control, c) else _space(spaces, c)))
    if part.flag("handle_chinese_chars", True):
        apart = table("IDEOGRAPHS")
        steps.append(_mapped(lambda c: " " + c + " " if contains(apart, c) else c))
    strip_accents = part.optional_flag("strip_accents")
    lower = part.flag("lowercase", True)
    if lower if strip_accents is None else strip_accents:
        steps += (normal_form("NFD"), _without("NONSPACING", "Mn"))
    if lower:
        steps.append(lower_case())
    return Normalizer(steps, False)


def _space(spaces, character: str) -> str:
    return " " if contains(spaces, character) else character


def _without(name: str, category: str) -> Step:
    gone = table(name, category)
    return _mapped(lambda character: "" if contains(gone, character) else character)


def _mapped(function: Callable[[str], str]) -> Step:
    mapping = CharacterMap(function)
    return lambda text: text.translate(mapping)


_READERS = {
    "Lowercase": _lower_case,
    "ByteLevel": _byte_level,
    "Prepend": _prepend,
    "Replace": _replace,
    "Strip": _strip,
    "StripAccents": _strip_accents,
    "Nmt": _nmt,
    "BertNormalizer": _bert,
}
