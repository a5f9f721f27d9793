"""The vocabulary in a GGUF file's metadata, as a tokenizer.json."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from edgeformer.errors import EdgeformerError
from edgeformer.nn.tokenizer_convert.documents import (
    Part,
    added,
    bpe,
    byte_level,
    document,
    part,
    template,
)
from edgeformer.nn.tokenizer_convert.pieces import (
    CONTROL,
    MOST_PIECES,
    NORMAL,
    UNKNOWN,
    UNUSED,
    USER_DEFINED,
    Merges,
    Pieces,
)
from edgeformer.nn.tokenizer_convert.pre_names import CUTS, OF_ARCHITECTURE, Cut

_PREFIX = "tokenizer.ggml."
_INSTEAD = (
    "give the checkpoint's folder with its tokenizer.json instead of this file, or export with "
    "--no-tokenizer and pass token ids"
)


def gguf_tokenizer_json(metadata: dict[str, Any], where: str) -> str:
    """What Hugging Face's library would read for this vocabulary. `where` is for errors."""
    vocabulary = _Vocabulary(metadata, where)
    model = vocabulary.value("model", str, None)
    if model == "gpt2":
        return _byte_level(vocabulary)
    if model in ("llama", "gemma4", "t5"):
        return _pieces(vocabulary, model).tokenizer_json()
    if model == "bert":
        return _word_piece(vocabulary)
    raise EdgeformerError(
        f"`{where}` has a vocabulary of model {model!r}; gpt2, llama, gemma4, t5 and bert are "
        f"known: {_INSTEAD}"
    )


@dataclass
class _Vocabulary:
    """The metadata, checked as it is read."""

    metadata: dict[str, Any]
    where: str

    def __post_init__(self) -> None:
        tokens = self.metadata.get(_PREFIX + "tokens")
        if not isinstance(tokens, list) or not 0 < len(tokens) <= MOST_PIECES:
            raise EdgeformerError(
                f"`{self.where}` has no list of tokens, or more than {MOST_PIECES}"
            )
        if not all(isinstance(token, str) for token in tokens):
            raise EdgeformerError(f"`{self.where}`: not every token is text")
        self.tokens: list[str] = tokens
        kinds = self.numbers("token_type")
        self.kinds = [NORMAL] * len(tokens) if kinds is None else [int(kind) for kind in kinds]

    def value(self, name: str, kind: type, otherwise: Any) -> Any:
        found = self.metadata.get(_PREFIX + name, otherwise)
        if found is not otherwise and type(found) is not kind:
            raise EdgeformerError(f"`{self.where}`: {_PREFIX}{name} is {found!r:.60}")
        return found

    def numbers(self, name: str) -> list[float] | None:
        """One for each token."""
        found = self.metadata.get(_PREFIX + name)
        if found is None:
            return None
        if not isinstance(found, Sequence) and not hasattr(found, "tolist"):
            raise EdgeformerError(f"`{self.where}`: {_PREFIX}{name} is {found!r:.60}")
        numbers = found.tolist() if hasattr(found, "tolist") else list(found)
        if len(numbers) != len(self.tokens):
            raise EdgeformerError(
                f"`{self.where}` has {len(self.tokens)} tokens and {len(numbers)} of {name}"
            )
        return numbers

    def named(self, name: str, wanted: bool) -> int | None:
        """The id of the bos, eos ... token, if it is wanted."""
        token_id = self.value(name + "_token_id", int, None)
        if not wanted or token_id is None:
            return None
        if not 0 <= token_id < len(self.tokens):
            raise EdgeformerError(
                f"`{self.where}`: its {name} token is {token_id}; it has {len(self.tokens)}"
            )
        return token_id

    def merges(self) -> Merges:
        written = self.metadata.get(_PREFIX + "merges")
        if not isinstance(written, list):
            raise EdgeformerError(f"`{self.where}` has no list of merges")
        merges = []
        for rank, text in enumerate(written):
            # A token may begin with a space, and no other place is certain.
            at = text.find(" ", 1) if isinstance(text, str) else -1
            if at < 0 or at + 1 == len(text):
                raise EdgeformerError(f"`{self.where}`: merge {rank} is {text!r:.60}")
            merges.append((text[:at], text[at + 1 :]))
        return merges


def _byte_level(vocabulary: _Vocabulary) -> str:
    cut = _cut(vocabulary)
    merges = vocabulary.merges()
    vocab: dict[str, int] = {}
    for token_id, (token, kind) in enumerate(zip(vocabulary.tokens, vocabulary.kinds)):
        if kind == UNUSED:
            continue
        if token in vocab:
            raise EdgeformerError(
                f"`{vocabulary.where}`: token {token[:40]!r} stands twice, as {vocab[token]} and "
                f"{token_id}"
            )
        vocab[token] = token_id
    begin = vocabulary.named("bos", vocabulary.value("add_bos_token", bool, cut.begins))
    end = vocabulary.named("eos", vocabulary.value("add_eos_token", bool, False))
    return document(
        bpe(vocab, merges, ignore_merges=cut.whole_words),
        _added(vocabulary),
        normalizer=part("NFC") if cut.nfc else None,
        pre_tokenizer=cut.pre_tokenizer,
        post_processor=_frame(vocabulary, begin, end),
        decoder=byte_level(),
    )


def _cut(vocabulary: _Vocabulary) -> Cut:
    name = vocabulary.value("pre", str, "default")
    if name == "default":
        architecture = vocabulary.metadata.get("general.architecture")
        name = OF_ARCHITECTURE.get(architecture, name) if isinstance(architecture, str) else name
    if name not in CUTS:
        raise EdgeformerError(
            f"`{vocabulary.where}` cuts text in a way called {name[:60]!r}, which is not known "
            f"here: {_INSTEAD}"
        )
    return CUTS[name]


def _added(vocabulary: _Vocabulary) -> list[Part]:
    return [
        added(token_id, token, kind != USER_DEFINED)
        for token_id, (token, kind) in enumerate(zip(vocabulary.tokens, vocabulary.kinds))
        if kind in (CONTROL, UNKNOWN, USER_DEFINED) and token
    ]


def _frame(vocabulary: _Vocabulary, begin: int | None, end: int | None) -> Part | None:
    begin_and_end = [
        [] if token_id is None else [(vocabulary.tokens[token_id], token_id)]
        for token_id in (begin, end)
    ]
    return template(*begin_and_end)


def _pieces(vocabulary: _Vocabulary, model: str) -> Pieces:
    """SentencePiece, by merges ("llama", "gemma4") or by likelihood ("t5")."""
    unigram = model == "t5"
    scores = vocabulary.numbers("scores")
    if scores is None and model != "gemma4":
        raise EdgeformerError(f"`{vocabulary.where}` has tokens without scores")
    has_merges = vocabulary.metadata.get(_PREFIX + "merges") is not None and not unigram
    charsmap = vocabulary.metadata.get(_PREFIX + "precompiled_charsmap", b"")
    return Pieces(
        where=vocabulary.where,
        texts=_spelled(vocabulary),
        scores=[float(score) for score in scores or [0.0] * len(vocabulary.tokens)],
        kinds=_kinds(vocabulary),
        unigram=unigram,
        prefix=vocabulary.value("add_space_prefix", bool, model != "gemma4"),
        squeeze=vocabulary.value("remove_extra_whitespaces", bool, False),
        charsmap=bytes(charsmap.tolist()) if hasattr(charsmap, "tolist") else bytes(charsmap),
        begin=vocabulary.named("bos", vocabulary.value("add_bos_token", bool, model == "llama")),
        end=vocabulary.named("eos", vocabulary.value("add_eos_token", bool, unigram)),
        merges=vocabulary.merges() if has_merges else None,
    )


def _spelled(vocabulary: _Vocabulary) -> list[str]:
    """llama.cpp writes user-defined pieces with spaces; as pieces they have the sign for one."""
    return [
        token.replace(" ", "▁") if kind == USER_DEFINED and not token.strip(" ") else token
        for token, kind in zip(vocabulary.tokens, vocabulary.kinds)
    ]


def _kinds(vocabulary: _Vocabulary) -> list[int]:
    """As the file says; files without types at least name the unknown token."""
    kinds = list(vocabulary.kinds)
    unknown = vocabulary.named("unknown", UNKNOWN not in kinds)
    if unknown is not None and kinds[unknown] in (NORMAL, CONTROL):
        kinds[unknown] = UNKNOWN
    return kinds


def _word_piece(vocabulary: _Vocabulary) -> str:
    """llama.cpp marks the pieces that begin a word; BERT those that go on."""
    vocab: dict[str, int] = {}
    for token_id, (token, kind) in enumerate(zip(vocabulary.tokens, vocabulary.kinds)):
        if token.startswith("▁") and len(token) > 1:
            token = token[1:]
        elif kind == NORMAL and not (token.startswith("[") and token.endswith("]")):
            token = "##" + token
        if vocab.setdefault(token, token_id) != token_id:
            raise EdgeformerError(f"`{vocabulary.where}`: token {token[:40]!r} stands twice")
    unknown = vocabulary.named("unknown", True)
    names = {number: token for token, number in vocab.items()}
    begin = vocabulary.named("cls", True)
    begin = vocabulary.named("bos", True) if begin is None else begin
    end = vocabulary.named("seperator", True)
    end = vocabulary.named("separator", True) if end is None else end
    around = [[] if each is None else [(names[each], each)] for each in (begin, end)]
    named = {vocabulary.named(each, True) for each in ("mask", "padding")} | {unknown, begin, end}
    cased = any(token != token.lower() for token in vocab if not token.startswith("["))
    return document(
        part(
            "WordPiece",
            unk_token="[UNK]" if unknown is None else names[unknown],
            continuing_subword_prefix="##",
            max_input_chars_per_word=100,
            vocab=vocab,
        ),
        [added(each, names[each], True) for each in sorted(named - {None})],
        normalizer=part(
            "BertNormalizer",
            clean_text=True,
            handle_chinese_chars=True,
            strip_accents=None,
            lowercase=not cased,
        ),
        pre_tokenizer=part("BertPreTokenizer"),
        post_processor=template(*around),
        decoder=part("WordPiece", prefix="##", cleanup=True),
    )
