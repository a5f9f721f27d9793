"""Constraints by llguidance, which has wheels for Python 3.10 and newer."""

import json
from typing import Any, Callable, Dict, List

import llguidance
import numpy as np

from edgeformer.errors import EdgeformerError
from edgeformer.generation.constraint.follow import Matcher
from edgeformer.generation.constraint.schema import rebuilt
from edgeformer.generation.constraint.vocabulary import Vocabulary

# A space may stand after ":" and ",", as models write it. Any white space at all would be allowed
# to go on for ever, and does where a model has nothing to say.
_JSON = {
    "item_separator": ", ?",
    "key_separator": ": ?",
    "whitespace_flexible": False,
    "whitespace_pattern": None,
    "coerce_one_of": False,
    "lenient": False,
}
_LOW = ("minimum", "exclusiveMinimum")
_HIGH = ("maximum", "exclusiveMaximum")


class _Tokens:
    """A vocabulary as llguidance asks for one."""

    is_tokenizer_wrapper = True
    bos_token_id = None

    def __init__(self, vocabulary: Vocabulary) -> None:
        # An end of its own: the model's end tokens are allowed by what may_end says.
        self.eos_token_id = len(vocabulary.tokens)
        self.tokens = [*vocabulary.tokens, b""]
        self.special_token_ids = [i for i, each in enumerate(self.tokens) if not each]
        self._vocabulary = vocabulary

    def __call__(self, text: str) -> List[int]:
        """Where the text is certain for a while, only these tokens of it are allowed."""
        return self._vocabulary.ids_of(text)


class Engine:
    """A vocabulary, made ready once; a matcher for each answer."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._tokenizer = llguidance.LLTokenizer(_Tokens(vocabulary))
        self._entries = len(vocabulary.tokens)

    def regex(self, pattern: str) -> Matcher:
        return self._matcher(llguidance.LLMatcher.grammar_from_regex(pattern), "regex")

    def json_schema(self, schema: str) -> Matcher:
        exact = json.dumps(rebuilt(json.loads(schema), _inside))
        grammar = llguidance.LLMatcher.grammar_from_json_schema(exact, overrides=_JSON)
        return self._matcher(grammar, "JSON schema")

    def _matcher(self, grammar: str, what: str) -> Matcher:
        def new() -> "llguidance.LLMatcher":
            return llguidance.LLMatcher(self._tokenizer, grammar, log_level=0)

        made = new()
        if made.is_error():
            raise EdgeformerError(f"the {what} cannot be used: {_reason(made.get_error())}")
        return _Matcher(made, new, self._entries, what)


class _Matcher(Matcher):
    def __init__(
        self,
        made: "llguidance.LLMatcher",
        new: "Callable[[], llguidance.LLMatcher]",
        entries: int,
        what: str,
    ) -> None:
        self._made = made
        self._new = new
        self._entries = entries
        self._what = what
        self._pushed: List[int] = []

    def push(self, entry: int) -> None:
        self._made.consume_token(entry)
        self._pushed.append(entry)
        self._refuse_error()

    def pop(self, count: int) -> None:
        del self._pushed[len(self._pushed) - count :]
        if not self._made.is_error():
            self._made.rollback(count)
        if self._made.is_error():  # it stays in its error from then on
            self._made = self._new()
            self._made.consume_tokens(self._pushed)
        self._refuse_error()

    def mask(self) -> np.ndarray:
        allowed = np.frombuffer(self._made.compute_logit_bias(), np.uint8)[: self._entries] != 0
        if self._at_dead_end():
            return np.zeros(self._entries, bool)
        self._refuse_error()
        return allowed

    def may_end(self) -> bool:
        return self._made.is_accepting()

    def _at_dead_end(self) -> bool:
        """An error to llguidance: no token goes on, and the text is not whole."""
        return self._made.is_error() and _reason(self._made.get_error()) == "NoExtensionBias"

    def _refuse_error(self) -> None:
        """It never raises by itself."""
        if self._made.is_error():
            raise EdgeformerError(
                f"llguidance gave up on the {self._what}: {_reason(self._made.get_error())}; "
                "a simpler one may do"
            )


def _inside(schema: Dict[str, Any]) -> Dict[str, Any]:
    """A whole number that a range excludes, moved into the range by a millionth of its width.

    llguidance allows it where the range is narrower than 1: 0 for {"exclusiveMinimum": 0,
    "maximum": 0.5}.
    """
    low = max((schema[each] for each in _LOW if _is_number(schema.get(each))), default=None)
    high = min((schema[each] for each in _HIGH if _is_number(schema.get(each))), default=None)
    if low is None or high is None or not 0 < high - low < 1:
        return schema
    moved = dict(schema)
    if schema.get("exclusiveMinimum") == low:
        moved["exclusiveMinimum"] = low + (high - low) * 1e-6
    if schema.get("exclusiveMaximum") == high:
        moved["exclusiveMaximum"] = high - (high - low) * 1e-6
    return moved


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _reason(message: str) -> str:
    """What is wrong, in a line; the rest of it repeats the pattern with marks below."""
    lines = [line.strip() for line in message.splitlines()]
    wrong = [line[len("error: ") :] for line in lines if line.startswith("error: ")]
    return wrong[0] if wrong else lines[0][:300]
