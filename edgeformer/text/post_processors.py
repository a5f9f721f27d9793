"""What the reference puts around a text by itself: the tokens that begin and end it."""

from typing import Any, List, NamedTuple, Tuple

from edgeformer.text.fields import token_id_of
from edgeformer.text.parts import Part


class Frame(NamedTuple):
    begin: Tuple[int, ...] = ()
    end: Tuple[int, ...] = ()


def read_post_processor(value: Any, path: str) -> Frame:
    if value is None:
        return Frame()
    part = Part(value, "post_processor", path)
    if part.type == "Sequence":
        frame = Frame()
        for each in part.parts("processors"):
            outer = read_post_processor(each, path)
            frame = Frame(outer.begin + frame.begin, frame.end + outer.end)
        return frame
    if part.type == "ByteLevel":
        return Frame()  # about offsets only
    if part.type in ("BertProcessing", "RobertaProcessing"):
        return Frame((_named(part, "cls"),), (_named(part, "sep"),))
    if part.type == "TemplateProcessing":
        return _template(part)
    raise part.unknown()


def _named(part: Part, name: str) -> int:
    value = part.take(name)
    if not isinstance(value, list) or len(value) != 2:
        raise part.unknown("%s = %.40r" % (name, value))
    return token_id_of(part.path, value[1], repr(value[0]))


def _template(part: Part) -> Frame:
    """The one for a single text: special tokens, the text once, special tokens."""
    single, special = part.take("single"), part.take("special_tokens")
    if not isinstance(single, list) or not isinstance(special, dict):
        raise part.unknown("single = %.60r" % (single,))
    sides: List[List[int]] = [[]]
    for item in single:
        if isinstance(item, dict) and list(item) == ["SpecialToken"]:
            sides[-1] += _ids_of(part, item["SpecialToken"], special)
        elif isinstance(item, dict) and list(item) == ["Sequence"]:
            sides.append([])
        else:
            raise part.unknown("%.60r in single" % (item,))
    if len(sides) != 2:
        raise part.unknown("a text that stands %d times in single" % (len(sides) - 1))
    return Frame(tuple(sides[0]), tuple(sides[1]))


def _ids_of(part: Part, item: Any, special: Any) -> List[int]:
    name = item.get("id") if isinstance(item, dict) else None
    entry = special.get(name) if isinstance(name, str) else None
    ids = entry.get("ids") if isinstance(entry, dict) else None
    if not isinstance(ids, list):
        raise part.unknown("%.60r, of which it names no ids" % (item,))
    return [token_id_of(part.path, each, repr(name)) for each in ids]
