"""Vocabularies of tokenizer files, checked, and the ids in them that have a role."""

from typing import Any, Dict, FrozenSet, List, Optional

from edgeformer.text.fields import MOST_IDS, refusal, text_of, token_id_of

Vocab = Dict[str, int]


def read_vocab(written: Any, path: str) -> Vocab:
    """An object from tokens to ids; ids may leave gaps."""
    if not isinstance(written, dict):
        raise refusal(path, "model.vocab is not an object")
    if not _plain(written):  # what is wrong is looked for only where something is
        for token, token_id in written.items():
            text_of(path, token, "a token of model.vocab")
            token_id_of(path, token_id, repr(token))
    if len(set(written.values())) != len(written):
        raise refusal(path, "two tokens of model.vocab have the same id")
    return written


def _plain(vocab: Vocab) -> bool:
    ids = vocab.values()
    if set(map(type, ids)) != {int} or min(ids) < 0 or max(ids) >= MOST_IDS:
        return False
    try:
        "".join(vocab).encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def by_id(vocab: Vocab, count: int) -> List[Optional[str]]:
    """At least count long; None where no token has this id."""
    tokens: List[Optional[str]] = [None] * max(count, max(vocab.values()) + 1)
    for token, token_id in vocab.items():
        tokens[token_id] = token
    return tokens


def unknown_id(token: Any, vocab: Vocab, path: str) -> int:
    """The id of what is no token."""
    if not isinstance(token, str) or token not in vocab:
        raise refusal(path, "model.unk_token is %.40r, not in its vocabulary" % (token,))
    return vocab[token]


def ordinary(vocab: Vocab, special: FrozenSet[str]) -> Vocab:
    """The tokens that a text may be made of: whoever types "</s>" gets no control token."""
    if special.isdisjoint(vocab):
        return vocab
    return {token: token_id for token, token_id in vocab.items() if token not in special}


def fallback_ids(vocab: Vocab) -> List[Optional[int]]:
    """The id of each byte's own token, "<0x00>" to "<0xFF>"."""
    return [vocab.get("<0x%02X>" % byte) for byte in range(256)]
