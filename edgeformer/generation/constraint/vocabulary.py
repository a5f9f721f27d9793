"""What each id writes, as a constraint sees it."""

from typing import FrozenSet, List

import numpy as np

from edgeformer.errors import EdgeformerError
from edgeformer.text import Tokenizer


class Vocabulary:
    """The bytes of every id; b"" for one that no constrained answer may hold.

    Where an answer stands alone, its first token may write other bytes than later ones (it loses
    its space). Those are further entries of `tokens`, behind the `rows` ids: entry rows + i is what
    the id `first[i]` writes in front.
    """

    def __init__(self, tokenizer: Tokenizer, eos_ids: FrozenSet[int], rows: int) -> None:
        """rows: logits of the model; it may know more ids than its tokenizer."""
        self.rows = rows
        self._tokenizer = tokenizer
        after = tokenizer.bytes_of_all()
        self.tokens: List[bytes] = [each or b"" for each in after] + [b""] * (rows - len(after))
        for each in eos_ids:  # none of them has a text in an answer
            self.tokens[each] = b""
        if not any(self.tokens):
            raise EdgeformerError(
                "the tokenizer writes words whose end depends on the next token, so that no "
                "regex or JSON schema can be held to; leave it out"
            )
        alone = tokenizer.bytes_of_all(after_text=False)
        changed = [i for i, each in enumerate(alone) if self.tokens[i] and each != self.tokens[i]]
        self.first = np.array(changed, np.intp)
        self.tokens.extend(alone[each] or b"" for each in changed)
        self._id_of = {each: i for i, each in enumerate(self.tokens[:rows]) if each}
        self._lengths = sorted({len(each) for each in self._id_of}, reverse=True)

    def ids_of(self, text: str) -> List[int]:
        """Ids that write exactly this text after another, as the tokenizer cuts it where it can.

        None at all where the vocabulary cannot write it.
        """
        data = text.encode("utf-8")
        try:
            ids = self._tokenizer.encode(text)
        except EdgeformerError:  # a character that no token has
            ids = []
        if b"".join(self.tokens[each] for each in ids) == data:
            return ids
        ids = []
        while data:
            length = next((n for n in self._lengths if data[:n] in self._id_of), None)
            if length is None:
                return []
            ids.append(self._id_of[data[:length]])
            data = data[length:]
        return ids
