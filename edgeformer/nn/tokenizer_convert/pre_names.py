"""How texts are cut, by the names that llama.cpp's converter gives (tokenizer.ggml.pre).

The file only has the name. What stands here is the pre-tokenizer of the checkpoint that the name
was made for, as its tokenizer.json has it, not llama.cpp's approximation of it.
"""

from __future__ import annotations

from typing import NamedTuple

from edgeformer.nn.tokenizer_convert.documents import (
    Part,
    byte_level,
    part,
    pre_tokenizers,
    split,
)

_CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_LETTERS = r"|[^\r\n\p{L}\p{N}]?\p{L}+"
_SIGNS = r"| ?[^\s\p{L}\p{N}]+[\r\n]*"
_SPACES = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"

_LLAMA_3 = _CONTRACTIONS + _LETTERS + r"|\p{N}{1,3}" + _SIGNS + _SPACES
_QWEN_2 = _CONTRACTIONS + _LETTERS + r"|\p{N}" + _SIGNS + _SPACES
_QWEN_35 = (
    _CONTRACTIONS
    + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
    + _SPACES
)
_SEED = _CONTRACTIONS + _LETTERS + r"|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+" + _SPACES
_BAILING = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*"
    r"|\s*[\r\n]|\s+(?!\S)|\s+"
)
_DEEPSEEK_3 = (
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?"
    "[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*" + _SPACES
)
# Letters with case, in the words of an older Unicode.
_DEEPSEEK_LETTERS = (
    r"\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅ"
    "Ὀ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎ"
    "ꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+"
)


def _cased(contractions: str, digits: str) -> str:
    """Words begin at a capital, as in GPT-4o."""
    front = r"[^\r\n\p{L}\p{N}]?"
    upper = front + _UPPER + "+" + _LOWER + "*" + contractions
    lower = front + _UPPER + "*" + _LOWER + "+" + contractions
    return lower + "|" + upper + digits + r"| ?[^\s\p{L}\p{N}]+[\r\n/]*" + _SPACES


_GPT_4O = _cased(_CONTRACTIONS + "?", r"|\p{N}{1,3}")
_TEKKEN = _cased("", r"|\p{N}")
_BLOOM = r" ?[^(\s|[.,!?…。，、।۔،])]+"
_HAN = "[一-龥ࠀ-一가-퟿]+"

_DIGITS = part("Digits", individual_digits=True)
_LAST = byte_level(use_regex=False)


class Cut(NamedTuple):
    """whole_words: a word that is one token is this token. begins: a text has a begin token."""

    pre_tokenizer: Part
    nfc: bool = False
    whole_words: bool = False
    begins: bool = False


def _by(*patterns: str) -> Part:
    return pre_tokenizers(*map(split, patterns), _LAST)


_PLAIN = byte_level()
_FALCON = pre_tokenizers(
    part("Punctuation", behavior="Contiguous"),
    byte_level(),
    part("Digits", individual_digits=False),
    split("[0-9][0-9][0-9]"),
)
# What llama.cpp itself does for want of a name.
_UNNAMED = _by(
    r"[\p{P}\$\+<=>\^~\|]+",
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)",
    r"\p{N}+",
    "[0-9][0-9][0-9]",
)

_GROUPS = {
    "gpt-2 phi-2 jina-es jina-de jina-v2-es jina-v2-de gigachat a.x-4.0 mellum jais trillion "
    "granite-docling exaone4": Cut(_PLAIN),
    "mpt olmo modern-bert": Cut(_PLAIN, nfc=True),
    "starcoder refact smollm codeshell exaone minerva-7b mellum2": Cut(
        pre_tokenizers(_DIGITS, _PLAIN)
    ),
    "command-r": Cut(pre_tokenizers(_DIGITS, _PLAIN), nfc=True),
    "falcon": Cut(_FALCON),
    "bloom poro-chat gpt3-finnish": Cut(_by(_BLOOM)),
    "viking": Cut(pre_tokenizers(split(_BLOOM), _DIGITS, _LAST)),
    "llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano": Cut(
        _by(_LLAMA_3), whole_words=True, begins=True
    ),
    "dbrx smaug-bpe chatglm-bpe glm4": Cut(_by(_LLAMA_3)),
    "qwen2 deepseek-r1-qwen kormo f2llmv2 megrez stablelm2": Cut(_by(_QWEN_2), nfc=True),
    "hunyuan grok-2 solar-open": Cut(_by(_QWEN_2)),
    "qwen35": Cut(_by(_QWEN_35), nfc=True),
    "tekken": Cut(_by(_TEKKEN), whole_words=True, begins=True),
    "gpt-4o llama4 kanana2 talkie minimax-m2": Cut(_by(_GPT_4O)),
    "deepseek-llm": Cut(
        pre_tokenizers(
            split("[\r\n]"),
            split(_DEEPSEEK_LETTERS),
            split(r"\s?[!-/:-~！-／：-～‘-‟　-。]+"),
            split(r"\s+$"),
            split(_HAN),
            _DIGITS,
            _LAST,
        )
    ),
    "deepseek-coder": Cut(
        pre_tokenizers(*map(split, ("[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _HAN)), _DIGITS, _LAST)
    ),
    "deepseek-v3 hunyuan-dense joyai-llm hy_v4": Cut(
        _by(r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+", _DEEPSEEK_3)
    ),
    "bailingmoe bailingmoe2 llada-moe": Cut(_by(_BAILING)),
    "seed-coder": Cut(_by(_SEED)),
    "default": Cut(_UNNAMED),
}
CUTS = {name: cut for names, cut in _GROUPS.items() for name in names.split()}

# Files from before the name existed, or converted without one.
OF_ARCHITECTURE = {
    "gpt2": "gpt-2",
    "phi2": "gpt-2",
    "gptneox": "olmo",
    "mpt": "mpt",
    "falcon": "falcon",
    "bloom": "bloom",
    "starcoder": "starcoder",
    "starcoder2": "starcoder",
    "qwen2": "qwen2",
    "olmo": "olmo",
}
