"""A bundle's tokenizer is the one that its manifest describes, or opening it fails."""

import shutil

import pytest

from edgeformer.bundle import Bundle
from edgeformer.errors import BundleError
from edgeformer.manifest import FileEntry, Manifest
from edgeformer.manifest_text import TokenizerEntry
from edgeformer.text import open_tokenizer
from tests.text.small import FOLDER

ENTRY = TokenizerEntry("byte-bpe", "tokenizer.json", {"<|endoftext|>": 0}, {}, None, None)


def bundle_with(folder, entry, vocab_size=900):
    """A bundle as far as text needs one: the rest of its manifest is empty."""
    shutil.copy(FOLDER + "/tokenizer.json", str(folder))
    manifest = Manifest(*[None] * len(Manifest._fields))._replace(
        name="small",
        tokenizer=entry,
        model={"vocab_size": vocab_size},
        files={"tokenizer.json": FileEntry(0, "")},
    )
    return Bundle(str(folder), manifest)


def test_a_bundle_opens_with_its_tokenizer(tmp_path):
    tokenizer = open_tokenizer(bundle_with(tmp_path, ENTRY))
    assert tokenizer.kind == "byte-bpe"
    assert tokenizer.decode(tokenizer.encode("It's 😀")) == "It's 😀"


def test_a_model_may_have_more_ids_than_its_tokenizer(tmp_path):
    assert open_tokenizer(bundle_with(tmp_path, ENTRY, vocab_size=1024)).vocab_size == 900


@pytest.mark.parametrize(
    "entry, vocab_size, reason",
    [
        (None, 900, "small has no tokenizer; pass token ids"),
        (ENTRY._replace(kind="char"), 900, "kind byte-bpe, not char"),
        (ENTRY._replace(special_tokens={}), 900, "other special tokens .*endoftext"),
        (ENTRY._replace(special_tokens={"<|endoftext|>": 1}), 900, "other special tokens"),
        (ENTRY, 899, "900 ids, and its model knows 899"),
        (ENTRY._replace(file="../tokenizer.json"), 900, "not in the files"),
    ],
)
def test_a_tokenizer_that_does_not_fit_its_bundle_is_refused(tmp_path, entry, vocab_size, reason):
    with pytest.raises(BundleError, match=reason):
        open_tokenizer(bundle_with(tmp_path, entry, vocab_size))
