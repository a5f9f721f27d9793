"""Write tests/data/families.json: vocabularies, and what Hugging Face gives with each family's.

    .venv/bin/python -m tests.text.make_family_golden

It lets Python 3.6, where today's `tokenizers` does not exist, be held against it. Families of one
kind share a vocabulary here. Of ids and texts only checksums are kept; where one differs, the
family's test in tests/nn/text shows how. Run this again after changing HARD_STRINGS or a family.
"""

import json
import os
import zlib

from tests.text.family_parts import BERT, CASED, FAMILIES, document_around, part
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


NORMALIZERS = {
    name: part(name) for name in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt")
}
NORMALIZERS.update(Bert=BERT, Cased=CASED)


def character_sum(normalize):
    """A checksum of what becomes of each character, alone and between a letter and an accent."""
    total = 0
    for start in range(0, 0x110000, 0x8000):
        block = range(start, start + 0x8000)
        characters = [chr(each) for each in block if not 0xD800 <= each < 0xE000]
        text = "\n".join(each + "\ne" + each + "\u0301" for each in characters)
        total = zlib.crc32(normalize(text).encode("utf-8"), total)
    return total


def expected_characters(name):
    """The reference's normalization of every character."""
    from tokenizers import Tokenizer, models

    document = json.loads(Tokenizer(models.BPE()).to_str())
    document["normalizer"] = NORMALIZERS[name]
    normalizer = Tokenizer.from_str(json.dumps(document)).normalizer
    return character_sum(normalizer.normalize_str)


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
        characters = {name: expected_characters(name) for name in NORMALIZERS}
        found = {"models": trained, "checksums": sums, "characters": characters}
        json.dump(found, file, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    main()
