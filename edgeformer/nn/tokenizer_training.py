"""Make the tokenizer of a new model from the text that the model will be trained on."""

import json
import re
from collections.abc import Sequence

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from edgeformer.errors import EdgeformerError

END_OF_TEXT = "<|endoftext|>"
_BYTES = 256


def train_byte_bpe(
    text: str, vocab_size: int, special_tokens: Sequence[str] = (END_OF_TEXT,)
) -> str:
    """The text of a tokenizer.json with a byte-level BPE vocabulary, the same at every run.

    Special tokens have the first ids; where the text holds them, they split it and teach nothing.
    The vocabulary is smaller than vocab_size when the text has too few pairs that come twice.
    """
    smallest = _BYTES + len(special_tokens)
    if vocab_size < smallest:
        raise EdgeformerError(
            f"vocab_size is {vocab_size}; byte-level BPE needs at least {smallest}: "
            f"{_BYTES} bytes and {len(special_tokens)} special tokens"
        )
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=list(special_tokens),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_split_at(special_tokens, text), trainer)
    return tokenizer.to_str()


def make_char_tokenizer(text: str, special_tokens: Sequence[str] = (END_OF_TEXT,)) -> str:
    """The text of a tokenizer.json of kind "char" that knows every character of text."""
    if not text:
        raise EdgeformerError("the text is empty: a character tokenizer needs its characters")
    characters = set().union(*_split_at(special_tokens, text))
    document = {
        "kind": "char",
        "characters": "".join(sorted(characters)),
        "special_tokens": {content: index for index, content in enumerate(special_tokens)},
    }
    return json.dumps(document, ensure_ascii=False)


def _split_at(special_tokens: Sequence[str], text: str) -> list[str]:
    if not special_tokens:
        return [text]
    return re.split("|".join(re.escape(token) for token in special_tokens), text)
