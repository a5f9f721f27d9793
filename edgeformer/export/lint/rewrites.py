"""How to write what a TensorRT version lacks."""

from __future__ import annotations

FUSED = (
    "export without the fusions of an optimizer: onnxruntime's or optimum's level 0; such an "
    "operator runs only through a plugin of the same name"
)
FUNCTION = "inline them: onnx.inliner.inline_local_functions(model)"
NORM = "export with opset 13 to 16: it comes out as Sub, Pow, ReduceMean, Sqrt, Div, Mul, Add"
MASK = "build the mask in Python and pass it in, or compute it from positions in INT32"

REWRITES = {
    "LayerNormalization": NORM,
    "GroupNormalization": "reshape and use InstanceNormalization, or decompose it",
    "RMSNormalization": "decompose it: Pow, ReduceMean, Add, Sqrt, Div, Mul",
    "Gelu": "0.5 * x * (1 + Erf(x / sqrt 2)), or the form with Tanh",
    "Trilu": MASK,
    "Mod": "a - b * Floor(a / b)",
    "OneHot": "Equal of Unsqueeze(x) and a constant range, then Cast",
    "NonZero": "use a mask of fixed size and Where",
    "IsInf": "Equal of Abs(x) and a constant infinity",
    "Xor": "Not(Equal) of two INT32",
    "HardSwish": "x * HardSigmoid(x), alpha 1/6, beta 0.5",
    "Mish": "x * Tanh(Softplus(x))",
    "CastLike": "Cast to the known type",
    "Attention": "MatMul, Softmax, MatMul: attn_implementation='eager' in transformers",
    "RotaryEmbedding": "Slice, Neg, Concat, Mul, Add",
    "MatMulInteger": "QuantizeLinear and DequantizeLinear around a MatMul",
    "DynamicQuantizeLinear": "static scales: QuantizeLinear and DequantizeLinear",
    "QLinearMatMul": "QuantizeLinear and DequantizeLinear around a MatMul",
    "Multinomial": "sample outside the graph",
    "RandomNormalLike": "sample outside the graph",
    "Hardmax": "ArgMax and Equal with a range",
    "Unique": "do it outside the graph",
    "Bernoulli": "sample outside the graph",
    "BitwiseAnd": "And of BOOL, or Mul of 0 and 1",
    "SequenceConstruct": "Concat, or tensors of their own",
    "SequenceAt": "Slice or Gather",
    "SplitToSequence": "Split",
}


def rewrite_of(operator: str) -> str:
    return REWRITES.get(operator, "write it with other operators")
