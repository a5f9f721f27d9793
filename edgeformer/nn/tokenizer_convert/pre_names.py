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
# Letters with case, most of those that Unicode 11 knew: first and last of each range.
_DEEPSEEK_LETTERS = (
    "41-5a 61-7a b5 c0-d6 d8-f6 f8-1ba 1bc-1bf 1c4-293 295-2af 370-373 376 377 37b-37d 37f 386 "
    "388-38a 38c 38e-3a1 3a3-3f5 3f7-481 48a-52f 531-556 10a0-10c5 13a0-13f5 13f8-13fd 1c90-1cba "
    "1cbd-1cbf 1d00-1d2b 1d6b-1d77 1d79-1d9a 1e00-1f15 1f18-1f1d 1f20-1f45 1f48-1f4d 1f50-1f57 "
    "1f59 1f5b 1f5d 1f5f-1f7d 1f80-1fb4 1fb6-1fbc 1fbe 1fc2-1fc4 1fc6-1fcc 1fd0-1fd3 1fd6-1fdb "
    "1fe0-1fec 1ff2-1ff4 1ff6-1ffc 2102 2107 210a-2113 2115 2119-211d 2124 2126 2128 212a-212d "
    "212f-2134 2139 213c-213f 2145-2149 214e 2183 2184 2c00-2c7b 2c7e-2ce4 2ceb-2cee 2cf2 2cf3 "
    "a640-a66d a680-a69b a722-a76f a771-a787 a78b-a78e ab70-abbf fb00-fb06 fb13-fb17 ff21-ff3a "
    "ff41-ff5a 10400-1044f 104b0-104d3 104d8-104fb 10c80-10cb2 10cc0-10cf2 118a0-118df 1e900-1e943"
)
_DEEPSEEK_WORD = r"\s?[%s]+" % "".join(
    "-".join(r"\x{%s}" % border for border in borders.split("-"))
    for borders in _DEEPSEEK_LETTERS.split()
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
            split(_DEEPSEEK_WORD),
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
