"""Text from token ids, one at a time, never half a character."""

from typing import Callable, Dict, List, Optional

from edgeformer.text.stages import NewStage, Stage


class TextStream:
    """Turns ids into text as they come: what was pushed so far, up to the last whole character.

    The chunks joined, with flush() last, are exactly what decode() gives for the same ids,
    wherever they are cut. A push costs the same however long the text already is.
    """

    def __init__(
        self,
        token_of: Callable[[int], Optional[str]],
        decoder: List[NewStage],
        after_text: bool,
        known: Dict[int, str],
    ) -> None:
        """token_of: the token of an id, None for one that is not shown. known: texts of ids that
        streams of this kind have met, for this one to read and to add to."""
        self._token_of = token_of
        self._decoder = decoder
        self._known = known
        self._start(after_text)

    def push(self, token_id: int) -> str:
        """The text that this id completes; "" while a character lacks bytes."""
        if self._plain and token_id in self._known:
            return self._known[token_id]
        token = self._token_of(token_id)
        if token is None:
            return ""
        text = "".join(push_through(self._stages, [token]))
        before, self._plain = self._plain, all(stage.plain() for stage in self._stages)
        if before and self._plain:
            self._known[token_id] = text
        return text

    def flush(self) -> str:
        """What the text ends with: "", or U+FFFD where a character was left unfinished."""
        rest = end_of(self._stages)
        self._start(True)
        return rest

    def _start(self, after_text: bool) -> None:
        self._stages = start_stages(self._decoder, after_text)
        self._plain = all(stage.plain() for stage in self._stages)


def start_stages(decoder: List[NewStage], after_text: bool) -> List[Stage]:
    return [new(after_text) for new in decoder]


def push_through(stages: List[Stage], tokens: List[str]) -> List[str]:
    for stage in stages:
        tokens = stage.push(tokens)
    return tokens


def end_of(stages: List[Stage]) -> str:
    """What every stage held back, through the stages after it."""
    pieces: List[str] = []
    for stage in stages:
        pieces = stage.push(pieces) + stage.end()
    return "".join(pieces)
