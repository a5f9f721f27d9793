"""Write tests/data/byte_bpe/: a small tokenizer.json, and the ids that Hugging Face gives with it.

    .venv/bin/python -m tests.text.make_golden

The ids let Python 3.6, where today's `tokenizers` does not exist, be held against it. Run this
again after changing HARD_STRINGS.
"""

import json
import os

from tokenizers import Tokenizer, pre_tokenizers

from edgeformer.nn.tokenizer_training import train_byte_bpe
from tests.text.hard_strings import HARD_STRINGS

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDER = os.path.join(ROOT, "tests", "data", "byte_bpe")
VOCAB_SIZE = 900


def small_tokenizer():
    """The text of a tokenizer.json with merges of English and of every script at hand."""
    with open(os.path.join(ROOT, "LICENSE"), encoding="utf-8") as file:
        return train_byte_bpe(file.read() + "\n".join(HARD_STRINGS), VOCAB_SIZE)


def expected(text):
    """The reference's ids of each hard string: as typed, after a space, with special tokens."""
    plain, prefixed, special = (Tokenizer.from_str(text) for _ in range(3))
    plain.encode_special_tokens = True
    prefixed.encode_special_tokens = True
    prefixed.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    return [
        {
            "text": string,
            "plain": plain.encode(string).ids,
            "add_prefix_space": prefixed.encode(string).ids,
            "allow_special": special.encode(string).ids,
        }
        for string in HARD_STRINGS
    ]


def main():
    text = small_tokenizer()
    os.makedirs(FOLDER, exist_ok=True)
    with open(os.path.join(FOLDER, "tokenizer.json"), "w", encoding="utf-8") as file:
        file.write(text + "\n")
    with open(os.path.join(FOLDER, "ids.json"), "w", encoding="utf-8") as file:
        file.write("[\n" + ",\n".join(json.dumps(entry) for entry in expected(text)) + "\n]\n")


if __name__ == "__main__":
    main()
