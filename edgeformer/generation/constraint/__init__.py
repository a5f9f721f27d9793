"""Answers that fit a regular expression or a JSON schema. Needs no numpy until one is asked for.

llguidance says what fits, where it has a release for the Python; on 3.6 to 3.9 we do (`own`).
"""

import sys
from typing import TYPE_CHECKING, Any, FrozenSet, NamedTuple, Optional

from edgeformer.errors import EdgeformerError

if TYPE_CHECKING:
    from edgeformer.generation.constraint.follow import Followed
    from edgeformer.text import Tokenizer

INSTALL = 'python -m pip install "llguidance>=1.9"'
MOST_PATTERN = 100000  # characters


class Wanted(NamedTuple):
    """What an answer must fit, checked as far as that needs no vocabulary."""

    kind: str  # "regex" or "JSON schema"
    source: str


def wanted(regex: Optional[str], json_schema: Any) -> Optional[Wanted]:
    """json_schema: a dict, a boolean or JSON text. None where neither is asked for."""
    if regex is not None and json_schema is not None:
        raise EdgeformerError("give a regex or a JSON schema, one of the two")
    if json_schema is not None:
        from edgeformer.generation.constraint.schema import read_schema

        return Wanted("JSON schema", read_schema(json_schema))
    if regex is None:
        return None
    if not isinstance(regex, str):
        raise EdgeformerError(f"regex is {type(regex).__name__}; it must be a string")
    if len(regex) > MOST_PATTERN:
        raise EdgeformerError(f"the regex has {len(regex)} characters, the limit is {MOST_PATTERN}")
    if any("\ud800" <= each < "\ue000" for each in regex):
        raise EdgeformerError("the regex holds half of a surrogate pair, which no text has")
    return Wanted("regex", regex)


class Constraints:
    """Makes the constraints of one tokenizer; its vocabulary is made ready with the first."""

    def __init__(
        self,
        tokenizer: "Optional[Tokenizer]",
        eos_ids: FrozenSet[int],
        rows: int,
        engine: Optional[str] = None,
    ) -> None:
        """rows: logits that the model gives. engine: "llguidance" or "own"; None: by the Python."""
        self._tokenizer = tokenizer
        self._eos_ids = eos_ids
        self._rows = rows
        self._own = sys.version_info < (3, 10) if engine is None else engine == "own"
        self._ready: Any = None

    def start(self, what: Wanted, after_text: bool) -> "Followed":
        """after_text: the answer goes on from a prompt, as in Tokenizer.stream."""
        from edgeformer.generation.constraint.follow import Followed

        vocabulary, engine = self._opened(what)
        make = engine.regex if what.kind == "regex" else engine.json_schema
        return Followed(make(what.source), vocabulary, after_text, what.kind)

    def _opened(self, what: Wanted) -> Any:
        if self._ready is None:
            if self._tokenizer is None:
                raise EdgeformerError(
                    f"a {what.kind} needs a tokenizer, and this bundle has none; leave it out"
                )
            engine = _own_engine() if self._own else _llguidance_engine()
            from edgeformer.generation.constraint.vocabulary import Vocabulary

            vocabulary = Vocabulary(self._tokenizer, self._eos_ids, self._rows)
            self._ready = vocabulary, engine(vocabulary)
        return self._ready


def _own_engine() -> Any:
    from edgeformer.generation.constraint.own import Engine

    return Engine


def _llguidance_engine() -> Any:
    try:
        from edgeformer.generation.constraint.llg import Engine
    except ImportError as error:
        missing = (error.name or "llguidance").split(".")[0]
        if missing == "edgeformer":
            raise
        raise EdgeformerError(
            f"a regex or JSON schema needs the package {missing}, which cannot be imported "
            f"({error}); install it with: {INSTALL}"
        ) from error
    return Engine
