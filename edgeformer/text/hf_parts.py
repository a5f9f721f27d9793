"""Which parts of a Hugging Face tokenizer.json are understood; any other is refused by name.

Only what is known to leave the ids alone is passed over: a part ignored by mistake gives a model
that answers, slightly wrong, for ever.
"""

from typing import Any, Dict

from edgeformer.text.fields import refusal

_KEYS = {
    "version",
    "truncation",
    "padding",
    "added_tokens",
    "normalizer",
    "pre_tokenizer",
    "post_processor",
    "decoder",
    "model",
}
_BYTE_LEVEL_FLAGS = ("add_prefix_space", "trim_offsets", "use_regex")
# Only about characters that have no token, and every byte has one; merges and vocab are read apart.
_HARMLESS_SETTINGS = {"vocab", "merges", "unk_token", "fuse_unk", "byte_fallback"}
_MODEL_SETTINGS = {
    "type": ("BPE",),
    "dropout": (None, 0),
    "continuing_subword_prefix": (None, ""),
    "end_of_word_suffix": (None, ""),
    "ignore_merges": (None, False, True),
}
_REMEDY = (
    "edgeformer knows byte-level BPE (model BPE; pre_tokenizer and decoder ByteLevel; no "
    "normalizer) and would give other ids: take a model with such a tokenizer, or export without "
    "a tokenizer and pass token ids"
)


def check_parts(document: Dict[str, Any], path: str) -> None:
    """Refuse any part that changes ids and is not understood."""
    for key in sorted(set(document) - _KEYS):
        raise refusal(path, "it has the unknown part %r" % key, _REMEDY)
    for key in ("normalizer", "truncation", "padding"):
        if document.get(key) is not None:
            raise refusal(path, "its %s is %s" % (key, _name(document[key])), _REMEDY)
    _check_byte_level(document, "pre_tokenizer", path)
    _check_byte_level(document, "decoder", path)
    if document.get("post_processor") is not None:
        _check_byte_level(document, "post_processor", path)
    _check_model(document.get("model"), path)


def _check_byte_level(document: Dict[str, Any], key: str, path: str) -> None:
    part = document.get(key)
    if not isinstance(part, dict) or part.get("type") != "ByteLevel":
        raise refusal(path, "its %s is %s" % (key, _name(part)), _REMEDY)
    for flag in sorted(set(part) - {"type"}):
        if flag not in _BYTE_LEVEL_FLAGS or not isinstance(part[flag], bool):
            raise refusal(path, "%s has %s = %.40r" % (key, flag, part[flag]), _REMEDY)


def _check_model(model: Any, path: str) -> None:
    # Files from before tokenizers 0.10 do not name the type of their model.
    if not isinstance(model, dict) or model.get("type", "BPE") != "BPE":
        raise refusal(path, "its model is %s" % _name(model), _REMEDY)
    for setting in sorted(set(model) - _HARMLESS_SETTINGS):
        if model[setting] not in _MODEL_SETTINGS.get(setting, ()):
            raise refusal(path, "model.%s is %.40r" % (setting, model[setting]), _REMEDY)


def _name(part: Any) -> str:
    """A part in a few words: its type, and of a sequence the types in it."""
    if not isinstance(part, dict):
        return "missing" if part is None else "%.40r" % (part,)
    for key in ("normalizers", "pretokenizers", "processors", "decoders"):
        if isinstance(part.get(key), list):
            inner = [one.get("type") if isinstance(one, dict) else one for one in part[key]]
            return "%.40s %.200s" % (part.get("type"), inner)
    return "%.40s" % (part.get("type", "set"),)
