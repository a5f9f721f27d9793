"""Read the parts of a tokenizer.json: nested objects, each with a type and settings of its own.

A part or a setting that is not understood is refused by name. One that is passed over by mistake
gives a model that answers, slightly wrong, for ever.
"""

from typing import Any, List, Optional, Tuple

from edgeformer.errors import EdgeformerError
from edgeformer.text.fields import refusal, text_of
from edgeformer.text.pattern import Pattern
from edgeformer.text.pattern_classes import UnknownPattern

_REMEDY = (
    "edgeformer would give other ids than the model was trained with: take a model with another "
    "tokenizer, or export with --no-tokenizer and pass token ids"
)


# Far above any real file: a hostile one must not make a text grow without end.
MOST_CONTENT = 64
_MOST_DEPTH = 20


def check_depth(value: Any, what: str, path: str) -> None:
    """Refuse parts inside parts inside parts, which reading follows."""
    level = [value]
    for _ in range(_MOST_DEPTH):
        inner: List[Any] = []
        for each in level:
            if isinstance(each, dict):
                inner.extend(each.values())
            elif isinstance(each, list):
                inner.extend(each)
        level = inner
    if level:
        raise refusal(path, "its %s is nested more than %d deep" % (what, _MOST_DEPTH))


class Part:
    """One object of the file; take() its settings one by one, then call finish()."""

    def __init__(self, value: Any, what: str, path: str) -> None:
        self.path = path
        self.what = what
        if not isinstance(value, dict) or not isinstance(value.get("type"), str):
            raise refusal(path, "its %s is %.60r" % (what, value))
        self.type = value["type"]
        self._left = {name: value[name] for name in value if name != "type"}

    def take(self, name: str, otherwise: Any = None) -> Any:
        """A setting that the caller checks."""
        return self._left.pop(name, otherwise)

    def flag(self, name: str, otherwise: bool) -> bool:
        value = self._left.pop(name, otherwise)
        if not isinstance(value, bool):
            raise self.unknown("%s = %.40r" % (name, value))
        return value

    def optional_flag(self, name: str) -> Optional[bool]:
        if self._left.get(name) is None:
            self.skip(name)
            return None
        return self.flag(name, False)

    def count(self, name: str) -> int:
        value = self._left.pop(name, None)
        if type(value) is not int or not 0 <= value <= 1000:
            raise self.unknown("%s = %.40r" % (name, value))
        return value

    def text(self, name: str, otherwise: Any = None) -> str:
        return text_of(self.path, self._left.pop(name, otherwise), "%s of %s" % (name, self.what))

    def content(self, name: str) -> str:
        """What a text may grow by at many places."""
        value = self.text(name)
        if len(value) > MOST_CONTENT:
            raise self.unknown("%s of %d characters" % (name, len(value)))
        return value

    def optional_text(self, name: str) -> str:
        """Text, and "" for null."""
        return self.text(name) if self._left.get(name) is not None else self.take(name) or ""

    def character(self, name: str) -> str:
        value = self.text(name)
        if len(value) != 1:
            raise self.unknown("%s = %.40r" % (name, value))
        return value

    def choice(self, name: str, known: Tuple[str, ...], otherwise: Any = None) -> str:
        value = self._left.pop(name, otherwise)
        if value not in known:
            raise self.unknown("%s = %.40r" % (name, value))
        return value

    def pattern(self) -> Tuple[str, Any]:
        """("String", text) or ("Regex", a Pattern)."""
        value = self._left.pop("pattern", None)
        if not isinstance(value, dict) or len(value) != 1:
            raise self.unknown("pattern = %.60r" % (value,))
        ((kind, source),) = value.items()
        if kind not in ("String", "Regex"):
            raise self.unknown("pattern = %.60r" % (value,))
        source = text_of(self.path, source, "pattern of " + self.what)
        if not source:
            raise self.unknown("an empty pattern")
        if kind == "String":
            return kind, source
        try:
            return kind, Pattern(source)
        except UnknownPattern as error:
            reason = "the pattern %.200r, of which edgeformer does not know %s" % (source, error)
            raise self.unknown(reason) from None

    def parts(self, name: str) -> List[Any]:
        """The parts of a Sequence."""
        value = self._left.pop(name, None)
        if not isinstance(value, list) or len(value) > 100:
            raise self.unknown("%s = %.60r" % (name, value))
        self.finish()
        return value

    def skip(self, *names: str) -> None:
        """Settings that change nothing here."""
        for name in names:
            self._left.pop(name, None)

    def finish(self) -> None:
        for name in sorted(self._left):
            raise self.unknown("%s = %.40r" % (name, self._left[name]))

    def unknown(self, what: str = "") -> EdgeformerError:
        name = "its %s is %.40s" % (self.what, self.type)
        return refusal(self.path, name + (" with " + what if what else ""), _REMEDY)
