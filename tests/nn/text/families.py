"""Tokenizers of model families over small vocabularies.

The vocabularies are trained on the hard strings, which is enough to merge.
"""

import json

from tokenizers import Tokenizer, models, trainers

from edgeformer.text.byte_letters import LETTER_OF
from tests.text.family_parts import FAMILIES, SPECIAL, document_around
from tests.text.hard_strings import HARD_STRINGS


def document_of(name, size=700):
    """The JSON of a family's tokenizer.json, with a vocabulary of its own."""
    kind, parts = FAMILIES[name]
    return document_around(kind, trained_model(name, size), parts)


def trained_model(name, size):
    """The model part: trained on what the family's normalizer and pre-tokenizer make of texts."""
    kind, parts = FAMILIES[name]
    settings = parts.get("model", {})
    around = {name: value for name, value in parts.items() if name != "model"}
    text = [text for text in HARD_STRINGS if text]
    if kind == "spm-bpe":
        # Cut into no words, it would merge up to a whole special token, as no real one does.
        text = [each for each in text if not any(token in each for token in SPECIAL)]
    if kind == "unigram":
        # It keeps every letter that it sees; some must stay unknown.
        text = [each for each in text if max(each) < "\u0500"]
    trainer = {"vocab_size": size, "special_tokens": SPECIAL, "show_progress": False}
    affixes = {k: v for k, v in settings.items() if k.endswith("fix")}
    if kind == "unigram":
        model, trainer = models.Unigram(), trainers.UnigramTrainer(unk_token="<unk>", **trainer)
    elif kind == "word-piece":
        # Not every letter: what is unknown must come, too.
        trainer = trainers.WordPieceTrainer(limit_alphabet=150, **dict(trainer, vocab_size=400))
        model = models.WordPiece(unk_token="<unk>")
    elif kind == "word-level":
        model, trainer = models.WordLevel(unk_token="<unk>"), trainers.WordLevelTrainer(**trainer)
    else:
        model = models.BPE(**affixes)
        alphabet = sorted(LETTER_OF.values()) if kind == "byte-bpe" else []
        limit = {} if kind == "byte-bpe" else {"limit_alphabet": 100}
        trainer = trainers.BpeTrainer(initial_alphabet=alphabet, **limit, **trainer, **affixes)
    tokenizer = Tokenizer.from_str(
        json.dumps(dict(json.loads(Tokenizer(model).to_str()), **around))
    )
    tokenizer.train_from_iterator(text, trainer)
    trained = json.loads(tokenizer.to_str())["model"]
    if kind == "word-level":  # a special token that is also a word leaves a gap in the ids
        in_order = sorted(trained["vocab"], key=trained["vocab"].get)
        trained["vocab"] = {word: index for index, word in enumerate(in_order)}
    trained.update(settings)
    if kind == "spm-bpe":
        trained.update(unk_token="<unk>", byte_fallback=True, fuse_unk=True)
    if kind == "spm-bpe" or settings.get("byte_fallback"):
        _add_bytes(trained["vocab"])
    if settings.get("ignore_merges"):
        for word in ("Ġuniversally", "acknowledged", "!!!!!", "ðŁĺĢ"):
            trained["vocab"].setdefault(word, len(trained["vocab"]))
    return trained


def _add_bytes(vocab):
    for byte in range(256):
        token = "<0x%02X>" % byte
        if isinstance(vocab, list):
            vocab.append([token, -30.0])
        else:
            vocab[token] = len(vocab)
