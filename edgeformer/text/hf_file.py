"""Read a Hugging Face tokenizer.json into a ByteBpe, or say which part of it is not understood."""

from typing import Any, Dict, List, Optional

from edgeformer.text.byte_bpe import ByteBpe
from edgeformer.text.fields import refusal, text_of, token_id_of
from edgeformer.text.hf_parts import check_parts
from edgeformer.text.merge import Merge
from edgeformer.text.tokenizer import AddedToken

_ADDED_FLAGS = ("special", "normalized", "lstrip", "rstrip", "single_word")
_ADDED_KEYS = {"id", "content"}.union(_ADDED_FLAGS)
# The other bytes stand in no valid text; some vocabularies leave them out.
_BYTES_IN_UTF8 = [byte for byte in range(256) if byte not in (0xC0, 0xC1) and byte < 0xF5]


def _byte_letters() -> Dict[int, str]:
    """The visible letter that a vocabulary writes for each byte."""
    visible = list(range(0x21, 0x7F)) + list(range(0xA1, 0xAD)) + list(range(0xAE, 0x100))
    letters = {byte: chr(byte) for byte in visible}
    for byte in range(256):
        if byte not in letters:
            letters[byte] = chr(0x100 + len(letters) - len(visible))
    return letters


# From byte letters to the latin-1 characters of their bytes; what is no byte letter must not pass.
_TO_LATIN1 = dict.fromkeys(range(256), "\uffff")
_TO_LATIN1.update((ord(letter), chr(byte)) for byte, letter in _byte_letters().items())


def read_hf_file(document: Dict[str, Any], path: str) -> ByteBpe:
    """A ByteBpe from the JSON of a tokenizer.json, checked."""
    check_parts(document, path)
    model = document["model"]
    vocab = _read_vocab(model, path)
    added = _read_added_tokens(document.get("added_tokens") or [], vocab, path)
    merges = _read_merges(model, vocab, path)

    last_id = max(list(vocab.values()) + [token.token_id for token in added])
    token_bytes = [None] * (last_id + 1)  # type: List[Optional[bytes]]
    id_of_bytes = {}
    for token, token_id in vocab.items():
        raw = _spelled_bytes(token)
        token_bytes[token_id] = token.encode("utf-8") if raw is None else raw
        if raw is not None:
            id_of_bytes[raw] = token_id
    for byte in _BYTES_IN_UTF8:
        if bytes([byte]) not in id_of_bytes:
            raise refusal(path, "its vocabulary lacks byte 0x%02X: text would be lost" % byte)
    for added_token in added:
        token_bytes[added_token.token_id] = added_token.content.encode("utf-8")

    pre_tokenizer = document["pre_tokenizer"]
    return ByteBpe(
        token_bytes,
        added,
        byte_ids=[id_of_bytes.get(bytes([byte]), -1) for byte in range(256)],
        merges=merges,
        whole_words=id_of_bytes if model.get("ignore_merges") else {},
        add_prefix_space=pre_tokenizer.get("add_prefix_space", True),
        split=pre_tokenizer.get("use_regex", True),
    )


def _spelled_bytes(token: str) -> Optional[bytes]:
    """The bytes that a vocabulary entry spells in byte letters; None if it holds anything else."""
    try:
        return token.translate(_TO_LATIN1).encode("latin-1")
    except UnicodeEncodeError:
        return None


def _read_vocab(model: Dict[str, Any], path: str) -> Dict[str, int]:
    vocab = model.get("vocab")
    if not isinstance(vocab, dict):
        raise refusal(path, "model.vocab is not an object")
    for token, token_id in vocab.items():
        text_of(path, token, "a token of model.vocab")
        token_id_of(path, token_id, repr(token))
    if len(set(vocab.values())) != len(vocab):
        raise refusal(path, "two tokens of model.vocab have the same id")
    return vocab


def _read_merges(model: Dict[str, Any], vocab: Dict[str, int], path: str):
    """Merges are written as "a b" by older versions of `tokenizers`, as ["a", "b"] by newer."""
    written = model.get("merges")
    if not isinstance(written, list):
        raise refusal(path, "model.merges is not a list")
    merges = {}  # type: Dict[Tuple[int, int], Merge]
    for rank, pair in enumerate(written):
        if isinstance(pair, str):
            pair = pair.split(" ")
        if not (isinstance(pair, list) and [type(one) for one in pair] == [str, str]):
            raise refusal(path, "merge %d is %.60r, not a pair of tokens" % (rank, pair))
        left, right = pair
        for token in (left, right, left + right):
            if token not in vocab:
                raise refusal(path, "merge %d needs %.60r, not in its vocabulary" % (rank, token))
        merges[vocab[left], vocab[right]] = Merge(rank, vocab[left + right])
    return merges


def _read_added_tokens(written: Any, vocab: Dict[str, int], path: str) -> List[AddedToken]:
    if not isinstance(written, list):
        raise refusal(path, "added_tokens is not a list")
    token_of_id = {token_id: token for token, token_id in vocab.items()}
    added = {}  # type: Dict[str, AddedToken]
    for entry in written:
        token = _read_added_token(entry, path)
        content, token_id = token.content, token.token_id
        if content in added:
            raise refusal(path, "added token %r stands twice" % content)
        owner = token_of_id.get(token_id, content)
        if owner != content:
            raise refusal(path, "added token %r has the id %d of %r" % (content, token_id, owner))
        if vocab.get(content, token_id) != token_id:
            raise refusal(path, "added token %r has two ids" % content)
        if content in vocab and _spelled_bytes(content) not in (None, content.encode("utf-8")):
            raise refusal(path, "added token %r is also a byte's letter" % content)
        token_of_id[token_id] = content
        added[content] = token
    return list(added.values())


def _read_added_token(entry: Any, path: str) -> AddedToken:
    if not isinstance(entry, dict) or set(entry) - _ADDED_KEYS:
        raise refusal(path, "added token %.80r is not understood" % (entry,))
    content = text_of(path, entry.get("content"), "the content of an added token")
    if not content:
        raise refusal(path, "an added token is empty")
    flags = {name: entry.get(name, False) for name in _ADDED_FLAGS}
    if not all(isinstance(value, bool) for value in flags.values()):
        raise refusal(path, "added token %r has a flag that is neither true nor false" % content)
    if flags["single_word"]:
        raise refusal(path, "added token %r has single_word, which is not supported" % content)
    return AddedToken(
        content,
        token_id_of(path, entry.get("id"), repr(content)),
        special=flags["special"],
        early=not flags["normalized"],
        lstrip=flags["lstrip"],
        rstrip=flags["rstrip"],
    )
