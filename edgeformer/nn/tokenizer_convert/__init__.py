"""Host half: vocabularies that are no tokenizer.json, as one."""

from edgeformer.nn.tokenizer_convert.gguf import gguf_tokenizer_json
from edgeformer.nn.tokenizer_convert.sentencepiece import sentencepiece_tokenizer_json

__all__ = ["gguf_tokenizer_json", "sentencepiece_tokenizer_json"]
