"""The parts of tokenizer.json files as model families ship them.

What a family changes is its normalizer, pre-tokenizer and decoder; they are here as written in its
files, each with the kind of model that they stand around.
"""

import copy

from tests.text.small import added_token

CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
LINES = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA_3 = CONTRACTIONS + (r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*" + LINES)
QWEN_2 = LLAMA_3.replace("{1,3}", "")
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
GPT_4O = "|".join(
    [
        r"[^\r\n\p{L}\p{N}]?" + UPPER + "*" + LOWER + "+" + CONTRACTIONS + "?",
        r"[^\r\n\p{L}\p{N}]?" + UPPER + "+" + LOWER + "*" + CONTRACTIONS + "?",
        r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*" + LINES,
    ]
)
TEKKEN = GPT_4O.replace(CONTRACTIONS + "?", "").replace("{1,3}", "")
CL100K = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"
    r"|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
)
DEEPSEEK_3 = (
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
    "| ?[\\p{P}\\p{S}]+[\r\n]*" + LINES
)
CLIP = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"


def part(kind, **settings):
    return dict({"type": kind}, **settings)


def split(pattern, behavior="Isolated", invert=False, kind="Regex"):
    return part("Split", pattern={kind: pattern}, behavior=behavior, invert=invert)


def byte_level(use_regex=True, add_prefix_space=False):
    return part(
        "ByteLevel", add_prefix_space=add_prefix_space, trim_offsets=True, use_regex=use_regex
    )


def then(*parts):
    return part("Sequence", pretokenizers=list(parts))


def normalizers(*parts):
    return part("Sequence", normalizers=list(parts))


def decoders(*parts):
    return part("Sequence", decoders=list(parts))


def replace(pattern, content, kind="String"):
    return part("Replace", pattern={kind: pattern}, content=content)


def metaspace(scheme, split=True):
    return part("Metaspace", replacement="▁", prepend_scheme=scheme, split=split)


SPLIT_BYTES = byte_level(use_regex=False)
DIGITS = part("Digits", individual_digits=True)
FROM_SPM = [replace("▁", " "), part("ByteFallback"), part("Fuse")]
SPM_DECODER = decoders(*FROM_SPM, part("Strip", content=" ", start=1, stop=0))
OLD_LLAMA = normalizers(part("Prepend", prepend="▁"), replace(" ", "▁"))
BERT = part(
    "BertNormalizer", clean_text=True, handle_chinese_chars=True, strip_accents=None, lowercase=True
)
CASED = dict(BERT, lowercase=False)
WORD_PIECES = part("WordPiece", prefix="##", cleanup=True)
ALBERT = normalizers(
    replace("``", '"'),
    replace("''", '"'),
    part("NFKD"),
    part("StripAccents"),
    part("Lowercase"),
    replace(" {2,}", " ", "Regex"),
)
DEEPSEEK_LLM = then(
    split("[\r\n]"),
    split(r"\s?\p{L}+"),
    split(r"\s?[!-/:-~！-／：-～‘-‟　-。]+"),
    split(r"\s+$"),
    split("[一-龥ࠀ-一가-퟿]+"),
    DIGITS,
    SPLIT_BYTES,
)
FALCON = then(
    part("Punctuation", behavior="Contiguous"),
    byte_level(),
    part("Digits", individual_digits=False),
    split("[0-9][0-9][0-9]"),
)
CLIP_TEXT = normalizers(part("NFC"), replace(r"\s+", " ", "Regex"), part("Lowercase"))


def cut_by(pattern, invert=False):
    behavior = "Removed" if invert else "Isolated"
    return {"pre_tokenizer": then(split(pattern, behavior, invert), SPLIT_BYTES)}


# name: (kind of model, parts). Byte-level BPE has the ByteLevel decoder unless it says otherwise.
FAMILIES = {
    "gpt2": ("byte-bpe", {"pre_tokenizer": byte_level()}),
    "roberta": ("byte-bpe", {"pre_tokenizer": byte_level(add_prefix_space=True)}),
    "gpt-neox": ("byte-bpe", {"normalizer": part("NFC"), "pre_tokenizer": byte_level()}),
    "claude": ("byte-bpe", {"normalizer": part("NFKC"), "pre_tokenizer": byte_level()}),
    "smollm2": ("byte-bpe", {"pre_tokenizer": then(DIGITS, byte_level())}),
    "falcon": ("byte-bpe", {"pre_tokenizer": FALCON}),
    "bloom": ("byte-bpe", cut_by(r" ?[^(\s|[.,!?…。，、।۔،])]+")),
    "llama3": ("byte-bpe", dict(cut_by(LLAMA_3), model={"ignore_merges": True})),
    "qwen2": ("byte-bpe", dict(cut_by(QWEN_2), normalizer=part("NFC"))),
    "olmo2": ("byte-bpe", cut_by(LLAMA_3, invert=True)),
    "gpt4o": ("byte-bpe", cut_by(GPT_4O, invert=True)),
    "mistral-nemo": ("byte-bpe", cut_by(TEKKEN)),
    "cl100k": ("byte-bpe", cut_by(CL100K)),
    "deepseek-llm": ("byte-bpe", {"pre_tokenizer": DEEPSEEK_LLM}),
    "deepseek-v3": (
        "byte-bpe",
        {
            "normalizer": normalizers(),
            "pre_tokenizer": then(
                split(r"\p{N}{1,3}"), split("[一-龥぀-ゟ゠-ヿ]+"), split(DEEPSEEK_3), SPLIT_BYTES
            ),
        },
    ),
    "clip": (
        "byte-bpe",
        {
            "normalizer": CLIP_TEXT,
            "pre_tokenizer": then(split(CLIP, "Removed", True), byte_level()),
            "model": {"end_of_word_suffix": "</w>", "unk_token": "<|endoftext|>"},
        },
    ),
    "llama2": ("spm-bpe", {"normalizer": OLD_LLAMA, "decoder": SPM_DECODER}),
    "llama2-new": ("spm-bpe", {"pre_tokenizer": metaspace("first", False), "decoder": SPM_DECODER}),
    "mistral-v3": ("spm-bpe", {"pre_tokenizer": metaspace("always"), "decoder": SPM_DECODER}),
    "gemma": (
        "spm-bpe",
        {
            "normalizer": replace(" ", "▁"),
            "pre_tokenizer": split(" ", "MergedWithPrevious", kind="String"),
            "decoder": decoders(*FROM_SPM),
        },
    ),
    "t5": ("unigram", {"pre_tokenizer": metaspace("always"), "decoder": metaspace("always")}),
    "unigram-bytes": (
        "unigram",
        {
            "normalizer": replace(" {2,}", "▁", "Regex"),
            "pre_tokenizer": metaspace("never"),
            "decoder": decoders(*FROM_SPM),
            "model": {"byte_fallback": True},
        },
    ),
    "albert": (
        "unigram",
        {
            "normalizer": ALBERT,
            "pre_tokenizer": then(part("WhitespaceSplit"), metaspace("always")),
            "decoder": metaspace("always"),
        },
    ),
    "bert": (
        "word-piece",
        {"normalizer": BERT, "pre_tokenizer": part("BertPreTokenizer"), "decoder": WORD_PIECES},
    ),
    "bert-cased": (
        "word-piece",
        {
            "normalizer": CASED,
            "pre_tokenizer": part("BertPreTokenizer"),
            "decoder": dict(WORD_PIECES, cleanup=False),
        },
    ),
    "openai-gpt": (
        "bpe",
        {
            "normalizer": BERT,
            "pre_tokenizer": part("BertPreTokenizer"),
            "decoder": part("BPEDecoder", suffix="</w>"),
            "model": {"end_of_word_suffix": "</w>", "unk_token": "<unk>"},
        },
    ),
    "prefixed-bpe": (
        "bpe",
        {
            "pre_tokenizer": part("Whitespace"),
            "model": {"continuing_subword_prefix": "##", "unk_token": "<unk>", "fuse_unk": True},
        },
    ),
    "words": ("word-level", {"normalizer": part("Nmt"), "pre_tokenizer": part("WhitespaceSplit")}),
}


SPECIAL = ["<unk>", "<|endoftext|>", "<|im_start|>"]


def document_around(kind, model, parts):
    """A tokenizer.json of these parts. Control tokens are early, but for one that is no control.

    It shares nothing with them: a test may take a document apart.
    """
    model, parts = copy.deepcopy(model), copy.deepcopy(parts)
    document = dict.fromkeys(("normalizer", "pre_tokenizer", "post_processor", "decoder"))
    document.update(version="1.0", truncation=None, padding=None)
    if kind == "byte-bpe":
        document["decoder"] = byte_level()
    document.update((name, value) for name, value in parts.items() if name != "model")
    document["model"] = dict(model, **parts.get("model", {}))
    vocab = model["vocab"]
    ids = {entry[0]: i for i, entry in enumerate(vocab)} if kind == "unigram" else vocab
    free = max(ids.values()) + 1
    document["added_tokens"] = [
        dict(added_token(content, ids.get(content, free)), special=content != "<tool>")
        for content in [*SPECIAL, "<tool>"]
    ]
    return document
