"""A chat that goes on: its messages, and answers that compute only what is new. Needs no numpy."""

import json
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence, Tuple, Union

from edgeformer.asked import whole
from edgeformer.errors import EdgeformerError
from edgeformer.generation.cache import respelled
from edgeformer.wholefile import read_at_most, write_whole

if TYPE_CHECKING:
    from edgeformer.generation.params import SamplingParams
    from edgeformer.generation.steps import Stats, Step
    from edgeformer.generation.stream import Stream
    from edgeformer.model import Model

Message = Dict[str, Any]
FORMAT = 1
MOST_BYTES = 16 << 20
CHARACTERS = 32  # of a token; texts of longer ones hardly are


class Conversation:
    """What was said so far, and how the next turn is asked. `Model.chat` makes one.

    `messages` is a plain list of {"role", "content"} and may be edited: what stands in it when a
    turn is asked is what the model reads, and only what differs from the rows in its cache is
    computed. When a prompt would leave no room for an answer, the oldest turns are left out of it,
    until at most half of the capacity is in use; `left_out` says how many messages these are.
    """

    def __init__(
        self,
        model: "Model",
        system: Optional[str] = None,
        messages: Sequence[Message] = (),
        reuse: Union[bool, str] = "all",
        **template: Any,
    ) -> None:
        self.messages: List[Message] = checked_messages(list(messages), "messages")
        self.left_out = 0
        self._model = model
        self._reuse = reuse
        self._template = template
        self._answer: "Optional[Answer]" = None
        if system is not None:
            self.system = system

    @property
    def system(self) -> Optional[str]:
        """What the model is told beforehand: the content of a first message with this role."""
        return self.messages[0]["content"] if self._first() else None

    @system.setter
    def system(self, text: Optional[str]) -> None:
        told = [] if text is None else [{"role": "system", "content": _text(text, "system")}]
        self.messages[: self._first()] = told

    def send(
        self, text: str, params: "Optional[SamplingParams]" = None, **sampling: Any
    ) -> "Answer":
        """Start the next answer: an iterator of `Step`, as `Model.stream` gives.

        Question and answer come into `messages` when it ends, cancelled or not, with the text that
        was shown; an answer without a token, or one that failed, leaves no trace. An answer that
        is still open is cancelled.
        """
        self.close()
        asked = {"role": "user", "content": _text(text, "the message")}
        room = sampling.get("max_new_tokens", None if params is None else params.max_new_tokens)
        ids, left_out = self._fitted(asked, room)
        stream = self._model.stream(ids, params, after_text=False, reuse=self._reuse, **sampling)
        self.left_out = left_out
        self._answer = Answer(stream, self.messages, asked)
        return self._answer

    def reset(self) -> None:
        """Forget all but the system message."""
        self.close()
        del self.messages[self._first() :]
        self.left_out = 0

    def rewind(self, turns: int = 1) -> List[Message]:
        """Take back the last turns; what was taken. Their rows are forgotten with the next turn."""
        self.close()
        starts = _turns(self.messages)
        count = whole(turns)
        if count is None or not 1 <= count <= len(starts):
            raise EdgeformerError(
                f"the conversation has {len(starts)} turns; {turns!r} cannot be taken back"
            )
        taken = self.messages[starts[-count] :]
        del self.messages[starts[-count] :]
        self.left_out = 0
        return taken

    def save(self, path: str) -> None:
        """Write the messages as JSON: {"format": 1, "messages": [{"role": ..., "content": ...}]}"""
        self.close()
        document = {"format": FORMAT, "messages": self.messages}
        try:
            text = json.dumps(document, ensure_ascii=False, indent=1) + "\n"
            write_whole(path, [text.encode("utf-8")])
        except (TypeError, UnicodeEncodeError) as error:
            raise EdgeformerError(f"these messages cannot be JSON in UTF-8: {error}") from None

    def load(self, path: str) -> None:
        """Go on with the messages of a file that `save` wrote."""
        found = read_messages(path)
        self.close()
        self.messages[:] = found
        self.left_out = 0

    def close(self) -> None:
        """Cancel the answer that is open, if there is one."""
        if self._answer is not None:
            self._answer.close()
            self._answer = None

    def _first(self) -> int:
        """Messages at the start that are the system's: 0 or 1."""
        return int(bool(self.messages) and self.messages[0]["role"] == "system")

    def _fitted(self, asked: Message, room: Any) -> Tuple[List[int], int]:
        """The prompt's ids, and how many messages behind the system's are left out of it."""
        capacity = self._model.bundle.manifest.capacity
        asked_for = whole(room)
        wanted = capacity // 4 if asked_for is None else min(asked_for, capacity // 4)
        first = self._first()
        # A turn ends where the next begins; the last of them is the question itself.
        ends = [start - first for start in _turns(self.messages) if start > first]
        ends.append(len(self.messages) - first)
        left_out = max([0] + [end for end in ends if end <= self.left_out])
        length = self._lengths()
        if length[left_out] <= CHARACTERS * capacity:
            ids = self._ids(asked, left_out)
            if len(ids) + wanted - 1 <= capacity:
                return ids, left_out
        # The fewest turns with which half of the capacity is free; all where no fewer will do.
        later = [end for end in ends if end > left_out] or [left_out]
        later = [end for end in later if length[end] <= CHARACTERS * capacity] or later[-1:]
        low, high = 0, len(later) - 1
        while low < high:
            middle = (low + high) // 2
            size = len(self._ids(asked, later[middle]))
            if size <= capacity // 2 and size + wanted - 1 <= capacity:
                high = middle
            else:
                low = middle + 1
        return self._ids(asked, later[low]), later[low]

    def _lengths(self) -> List[int]:
        """Characters that are left to be rendered without the first 0, 1, ... messages."""
        lengths = [0]
        for message in reversed(self.messages[self._first() :]):
            lengths.append(lengths[-1] + len(str(message.get("content"))))
        return lengths[::-1]

    def _ids(self, asked: Message, left_out: int) -> List[int]:
        first = self._first()
        told, rest = self.messages[:first], self.messages[first + left_out :]
        ids = self._model.chat_ids([*told, *rest, asked], **self._template)
        tokenizer = self._model.tokenizer
        if self._reuse != "all" or tokenizer is None:
            return ids
        return respelled(self._model.cached_ids, ids, tokenizer.bytes_of)


class Answer:
    """A `Stream` that is written into its conversation when it ends."""

    def __init__(self, stream: "Stream", messages: List[Message], asked: Message) -> None:
        self._stream = stream
        self._messages = messages
        self._asked: Optional[Message] = asked  # None: written
        self._texts: List[str] = []

    def __iter__(self) -> "Answer":
        return self

    def __next__(self) -> "Step":
        try:
            step = next(self._stream)
            self._texts.append(step.text)
            return step
        finally:
            self._written()

    @property
    def text(self) -> str:
        """What has come so far."""
        return "".join(self._texts)

    @property
    def finish_reason(self) -> Optional[str]:
        return self._stream.finish_reason

    @property
    def stats(self) -> "Stats":
        return self._stream.stats

    def close(self) -> None:
        """End it here; what came of it stays in the conversation."""
        self._stream.close()
        self._written()

    def cancel(self) -> None:
        """End it after the step that it is in, from any thread."""
        self._stream.cancel()

    def _written(self) -> None:
        reason = self._stream.finish_reason
        if reason is None or self._asked is None:
            return
        asked, self._asked = self._asked, None
        if reason != "error" and self._stream.stats.new_tokens:
            self._messages += [asked, {"role": "assistant", "content": self.text}]


def read_messages(path: str) -> List[Message]:
    """The messages of a saved conversation, checked."""
    raw = read_at_most(path, MOST_BYTES, advice="it is no conversation")
    try:
        document = json.loads(raw.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise EdgeformerError(f"{path!r} is not JSON: {error}") from None
    if not isinstance(document, dict) or sorted(document) != ["format", "messages"]:
        raise EdgeformerError(
            f"{path!r} is no saved conversation; it must hold format and messages and nothing else"
        )
    if document["format"] != FORMAT or isinstance(document["format"], bool):
        raise EdgeformerError(
            f"{path!r} has format {document['format']!r}; this version of edgeformer reads {FORMAT}"
        )
    return checked_messages(document["messages"], path)


def checked_messages(messages: Any, where: str) -> List[Message]:
    if not isinstance(messages, list):
        raise EdgeformerError(f"{where}: the messages are {type(messages).__name__}, not a list")
    for index, message in enumerate(messages):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise EdgeformerError(f'{where}: message {index} is no {{"role": ..., "content": ...}}')
        if message["role"] == "system" and index:
            raise EdgeformerError(f"{where}: message {index} is the system's; it must be the first")
        if message["role"] in ("system", "user") and not isinstance(message.get("content"), str):
            raise EdgeformerError(f"{where}: message {index} has no text as its content")
    return messages


def _turns(messages: Sequence[Message]) -> List[int]:
    """Where each turn begins: with the words of the user."""
    return [index for index, message in enumerate(messages) if message["role"] == "user"]


def _text(text: Any, what: str) -> str:
    if not isinstance(text, str):
        raise EdgeformerError(f"{what} is {type(text).__name__}; it must be text")
    return text
