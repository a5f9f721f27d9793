"""Host half: weights in 8 and 4 bits, in blocks along the inputs of a product."""

from edgeformer.nn.quantize.blocks import Blocks, Format
from edgeformer.nn.quantize.gptq import gptq
from edgeformer.nn.quantize.search import nearest, searched

__all__ = ["Blocks", "Format", "gptq", "nearest", "searched"]
