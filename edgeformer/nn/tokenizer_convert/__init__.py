"""Host half: vocabularies that are no tokenizer.json, as one."""

from edgeformer.nn.tokenizer_convert.gguf import gguf_tokenizer_json

__all__ = ["gguf_tokenizer_json"]
