"""Write tests/data/families.json: vocabularies, and what Hugging Face gives with each family's.

    .venv/bin/python -m tests.text.make_family_golden

It lets Python 3.6, where today's `tokenizers` does not exist, be held against it. Families of one
kind share a vocabulary here. Of ids and texts only checksums are kept; where one differs, the
family's test in tests/nn/text shows how. Run this again after changing HARD_STRINGS or a family.
"""

import json
import os
import zlib

from tests.text.family_parts import FAMILIES, document_around
from tests.text.hard_strings import HARD_STRINGS

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PATH = os.path.join(TESTS, "data", "families.json")


def model_name(family):
    """The name of the vocabulary that a family has in the file."""
    kind, parts = FAMILIES[family]
    own = any(name.endswith("fix") for name in parts.get("model", {}))
    return family if own or kind == "word-level" else kind


def checksum(ids, text):
    return zlib.crc32(json.dumps([ids, text]).encode("ascii"))


def expected(family, model):
    """A checksum of the reference's ids and text for each hard string, special tokens found."""
    from tokenizers import Tokenizer

    kind, parts = FAMILIES[family]
    tokenizer = Tokenizer.from_str(json.dumps(document_around(kind, model, parts)))
    all_ids = [tokenizer.encode(text).ids for text in HARD_STRINGS]
    return [checksum(ids, tokenizer.decode(ids)) for ids in all_ids]


def golden():
    with open(PATH, encoding="utf-8") as file:
        return json.load(file)


def main():
    from tests.nn.text.families import trained_model

    trained = {}
    for family in FAMILIES:
        trained.setdefault(model_name(family), trained_model(family, 500))
    sums = {family: expected(family, trained[model_name(family)]) for family in FAMILIES}
    with open(PATH, "w", encoding="utf-8") as file:
        json.dump({"models": trained, "checksums": sums}, file, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    main()
