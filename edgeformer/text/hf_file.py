"""Read a Hugging Face tokenizer.json, or say which part of it is not understood."""

from typing import Any, Dict, FrozenSet, List, Tuple

from edgeformer.text.added_tokens import AddedToken
from edgeformer.text.bpe import read_bpe
from edgeformer.text.decoders import read_decoder
from edgeformer.text.fields import refusal, text_of, token_id_of
from edgeformer.text.hf_tokenizer import HfTokenizer
from edgeformer.text.normalizers import read_normalizer
from edgeformer.text.parts import check_depth
from edgeformer.text.post_processors import read_post_processor
from edgeformer.text.pre_tokenizers import read_pre_tokenizer
from edgeformer.text.stages import ByteLetters
from edgeformer.text.unigram import read_unigram
from edgeformer.text.word_piece import read_word_level, read_word_piece

_KEYS = {
    "version",
    "added_tokens",
    "normalizer",
    "pre_tokenizer",
    "post_processor",
    "decoder",
    "model",
    # About batches; like transformers, encode does neither.
    "truncation",
    "padding",
}
_ADDED_FLAGS = ("special", "normalized", "lstrip", "rstrip", "single_word")
_ADDED_KEYS = {"id", "content"}.union(_ADDED_FLAGS)
_OTHER_MODELS = {
    "Unigram": ("unigram", read_unigram),
    "WordPiece": ("word-piece", read_word_piece),
    "WordLevel": ("word-level", read_word_level),
}


def read_hf_file(document: Dict[str, Any], path: str) -> HfTokenizer:
    for key in sorted(set(document) - _KEYS):
        raise refusal(path, "it has the unknown part %r" % key)
    for key in ("normalizer", "pre_tokenizer", "post_processor", "decoder"):
        check_depth(document.get(key), key, path)
    normalizer = read_normalizer(document.get("normalizer"), path)
    pre_tokenizer = read_pre_tokenizer(document.get("pre_tokenizer"), path)
    if pre_tokenizer.asks_start and normalizer is not None and not normalizer.keeps_start:
        raise refusal(
            path,
            "its pre_tokenizer has prepend_scheme = 'first', and its normalizer may take away the "
            "start of a text",
        )
    decoder = read_decoder(document.get("decoder"), path)
    added = _read_added_tokens(document.get("added_tokens"), path)
    special = frozenset(token.content for token in added if token.special)
    kind, model = _read_model(document.get("model"), path, pre_tokenizer.spells, special)
    if kind == "bpe" and ByteLetters in decoder:
        kind = "byte-bpe"
    tokens = model.tokens(max([each.token_id + 1 for each in added] + [0]))
    _check_ids(added, model.vocab, tokens, path)
    for each in added:
        tokens[each.token_id] = each.content
    return HfTokenizer(
        kind,
        pre_tokenizer,
        model,
        tokens=tokens,
        added=added,
        decoder=decoder,
        normalize=normalizer,
        frame=read_post_processor(document.get("post_processor"), path),
    )


def _read_model(model: Any, path: str, spells: bool, special: FrozenSet[str]) -> Tuple[str, Any]:
    """Its kind, and the model: whatever the text, no id of a special token comes from it."""
    if not isinstance(model, dict):
        raise refusal(path, "its model is %.40r" % (model,))
    # Files from before tokenizers 0.10 do not name the type of their model.
    name = model.get("type", "BPE" if "merges" in model else None)
    if name == "BPE":
        return "bpe", read_bpe(model, path, spells, special)
    if not isinstance(name, str) or name not in _OTHER_MODELS:
        raise refusal(path, "its model is %.40r" % (name,))
    kind, reader = _OTHER_MODELS[name]
    return kind, reader(model, path, special)


def _read_added_tokens(written: Any, path: str) -> List[AddedToken]:
    if not isinstance(written, (list, type(None))):
        raise refusal(path, "added_tokens is not a list")
    added: Dict[str, AddedToken] = {}
    for entry in written or ():
        token = _read_added_token(entry, path)
        if token.content in added:
            raise refusal(path, "added token %r stands twice" % token.content)
        added[token.content] = token
    return list(added.values())


def _check_ids(added: List[AddedToken], vocab: Any, tokens: Any, path: str) -> None:
    """vocab: ids by token; tokens: the other way round."""
    known: Dict[int, str] = {}
    for content, token_id, *_ in added:
        owner = known.get(token_id, tokens[token_id])
        if owner is not None and owner != content:
            raise refusal(path, "added token %r has the id %d of %r" % (content, token_id, owner))
        if vocab.get(content, token_id) != token_id:
            raise refusal(path, "added token %r has two ids" % content)
        known[token_id] = content


def _read_added_token(entry: Any, path: str) -> AddedToken:
    if not isinstance(entry, dict) or set(entry) - _ADDED_KEYS:
        raise refusal(path, "added token %.80r is not understood" % (entry,))
    content = text_of(path, entry.get("content"), "the content of an added token")
    if not content:
        raise refusal(path, "an added token is empty")
    flags = {name: entry.get(name, False) for name in _ADDED_FLAGS}
    if not all(isinstance(value, bool) for value in flags.values()):
        raise refusal(path, "added token %r has a flag that is neither true nor false" % content)
    return AddedToken(
        content,
        token_id_of(path, entry.get("id"), repr(content)),
        special=flags["special"],
        early=not flags["normalized"],
        lstrip=flags["lstrip"],
        rstrip=flags["rstrip"],
        single_word=flags["single_word"],
    )
