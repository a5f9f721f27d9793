"""Sizes of every value in a graph, for given T, P and R: enough of ONNX's rules for our graphs."""

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from edgeformer.engines.graphfile import ELEMENT_BYTES, FLOAT, INT32, INT64, UINT8, GraphFile, Node
from edgeformer.errors import BundleError

Shape = Tuple[int, ...]


class Value(NamedTuple):
    """What is known of a tensor; `numbers` only where it holds sizes."""

    shape: Shape
    element: int
    numbers: Optional[Tuple[int, ...]] = None

    @property
    def bytes(self) -> int:
        return count(self.shape) * ELEMENT_BYTES.get(self.element, 4)


def count(shape: Sequence[int]) -> int:
    total = 1
    for size in shape:
        total *= size
    return total


def infer(graph: GraphFile, inputs: Dict[str, Value], name: str) -> Dict[str, Value]:
    """Every value by name. An operator that is not known here keeps its first input's size."""
    values = {
        key: Value(tensor.shape, tensor.element, tensor.values)
        for key, tensor in graph.initializers.items()
    }
    values.update(inputs)
    for node in graph.nodes:
        try:
            given = [values[key] if key else Value((), 0) for key in node.inputs]
            made = RULES.get(node.operator, _same)(node, given)
            if any(size < 0 for value in made for size in value.shape):
                raise ValueError("a negative size")
        except (KeyError, IndexError, ValueError, TypeError, ArithmeticError):
            raise BundleError(
                f"{name}: node {node.name[:80]!r} ({node.operator[:40]}) does not fit its inputs; "
                "export the bundle again"
            ) from None
        values.update(zip(node.outputs, made))
    return values


def _same(node: Node, given: List[Value]) -> List[Value]:
    return [Value(given[0].shape, given[0].element)] * len(node.outputs)


def _cast(node: Node, given: List[Value]) -> List[Value]:
    return [Value(given[0].shape, node.attributes["to"], given[0].numbers)]


def broadcast(one: Shape, other: Shape) -> Shape:
    long = max(len(one), len(other))
    one, other = (1,) * (long - len(one)) + one, (1,) * (long - len(other)) + other
    for a, b in zip(one, other):
        if a != b and 1 not in (a, b):
            raise ValueError("sizes do not broadcast")
    return tuple(b if a == 1 else a for a, b in zip(one, other))


def _elementwise(node: Node, given: List[Value]) -> List[Value]:
    shape = given[0].shape
    for value in given[1:]:
        shape = broadcast(shape, value.shape)
    return [Value(shape, given[0].element)]


def _concat(node: Node, given: List[Value]) -> List[Value]:
    shape = list(given[0].shape)
    axis = node.attributes["axis"]
    shape[axis] = sum(value.shape[axis] for value in given)
    return [Value(tuple(shape), given[0].element)]


def _gather(node: Node, given: List[Value]) -> List[Value]:
    data, indices = given
    axis = (node.attributes.get("axis") or 0) % len(data.shape)
    return [Value(data.shape[:axis] + indices.shape + data.shape[axis + 1 :], data.element)]


def _gather_nd(node: Node, given: List[Value]) -> List[Value]:
    """Whole indices: the last axis of the indices picks along the first axes of the data."""
    data, indices = given
    return [Value(indices.shape[:-1] + data.shape[indices.shape[-1] :], data.element)]


def _gemm(node: Node, given: List[Value]) -> List[Value]:
    (m, k), (a, b) = given[0].shape, given[1].shape
    rows = k if node.attributes.get("transA") else m
    return [Value((rows, a if node.attributes.get("transB") else b), given[0].element)]


def _matmul(node: Node, given: List[Value]) -> List[Value]:
    a, b = given[0].shape, given[1].shape
    if a[-1] != b[-2]:
        raise ValueError("inner sizes differ")
    return [Value(broadcast(a[:-2], b[:-2]) + (a[-2], b[-1]), given[0].element)]


def _axes(node: Node, given: List[Value], rank: int) -> List[int]:
    """An attribute in older operators, an input in newer ones."""
    axes = node.attributes.get("axes")
    if axes is None and len(given) > 1:
        axes = given[1].numbers
    return [axis % rank for axis in axes] if axes is not None else list(range(rank))


def _reduce(node: Node, given: List[Value]) -> List[Value]:
    shape = given[0].shape
    axes = _axes(node, given, len(shape))
    if node.attributes.get("keepdims", 1):
        return [Value(tuple(1 if i in axes else n for i, n in enumerate(shape)), given[0].element)]
    return [Value(tuple(n for i, n in enumerate(shape) if i not in axes), given[0].element)]


def _reshape(node: Node, given: List[Value]) -> List[Value]:
    data, wanted = given[0], list(given[1].numbers)
    wanted = [data.shape[i] if size == 0 else size for i, size in enumerate(wanted)]
    if -1 in wanted:
        wanted[wanted.index(-1)] = count(data.shape) // count([n for n in wanted if n != -1])
    if count(wanted) != count(data.shape):
        raise ValueError("another number of elements")
    return [Value(tuple(wanted), data.element, data.numbers)]


def _shape_of(node: Node, given: List[Value]) -> List[Value]:
    return [Value((len(given[0].shape),), INT64, given[0].shape)]


def _slice(node: Node, given: List[Value]) -> List[Value]:
    shape = list(given[0].shape)
    starts, ends = given[1].numbers, given[2].numbers
    axes = given[3].numbers if len(given) > 3 and given[3].numbers else range(len(starts))
    steps = given[4].numbers if len(given) > 4 and given[4].numbers else [1] * len(starts)
    for start, end, axis, step in zip(starts, ends, axes, steps):
        shape[axis] = len(range(*slice(start, end, step).indices(shape[axis])))
    return [Value(tuple(shape), given[0].element)]


def _pool(node: Node, given: List[Value]) -> List[Value]:
    """AveragePool without padding."""
    shape, kernel = list(given[0].shape), node.attributes["kernel_shape"]
    strides = node.attributes.get("strides") or [1] * len(kernel)
    first = len(shape) - len(kernel)
    for axis, (size, stride) in enumerate(zip(kernel, strides), first):
        shape[axis] = (shape[axis] - size) // stride + 1
    return [Value(tuple(shape), given[0].element)]


def _split(node: Node, given: List[Value]) -> List[Value]:
    shape, axis = list(given[0].shape), node.attributes.get("axis") or 0
    sizes = given[1].numbers if len(given) > 1 else node.attributes.get("split")
    sizes = sizes or [shape[axis] // len(node.outputs)] * len(node.outputs)
    made = []
    for size in sizes:
        shape[axis] = size
        made.append(Value(tuple(shape), given[0].element))
    return made


def _transpose(node: Node, given: List[Value]) -> List[Value]:
    shape = given[0].shape
    order = node.attributes.get("perm") or range(len(shape))[::-1]
    return [Value(tuple(shape[i] for i in order), given[0].element)]


def _unsqueeze(node: Node, given: List[Value]) -> List[Value]:
    data = given[0]
    axes = node.attributes.get("axes") or given[1].numbers
    shape = list(data.shape)
    for axis in sorted(axis % (len(data.shape) + len(axes)) for axis in axes):
        shape.insert(axis, 1)
    return [Value(tuple(shape), data.element, data.numbers)]


def _squeeze(node: Node, given: List[Value]) -> List[Value]:
    shape = given[0].shape
    axes = _axes(node, given, len(shape))
    kept = tuple(n for i, n in enumerate(shape) if i not in axes)
    return [Value(kept, given[0].element, given[0].numbers)]


def _block_product(node: Node, given: List[Value]) -> List[Value]:
    """MatMulNBits: [.., K] -> [.., N]."""
    if given[0].shape[-1] != node.attributes["K"]:
        raise ValueError("inner sizes differ")
    return [Value(given[0].shape[:-1] + (node.attributes["N"],), given[0].element)]


def _block_rows(node: Node, given: List[Value]) -> List[Value]:
    """GatherBlockQuantized: rows of a table, each as long as its scales stand for."""
    width = given[2].shape[-1] * node.attributes["block_size"]
    return [Value(given[1].shape + (width,), given[2].element)]


def _rounded(node: Node, given: List[Value]) -> List[Value]:
    """DynamicQuantizeLinear: steps, scale and zero point."""
    return [Value(given[0].shape, UINT8), Value((), FLOAT), Value((), UINT8)]


def _steps(node: Node, given: List[Value]) -> List[Value]:
    """QuantizeLinear: of its zero point's type."""
    return [Value(given[0].shape, given[2].element if len(given) > 2 else UINT8)]


def _numbers(node: Node, given: List[Value]) -> List[Value]:
    return [Value(given[0].shape, FLOAT)]


def _integer_product(node: Node, given: List[Value]) -> List[Value]:
    (made,) = _matmul(node, given[:2])
    return [Value(made.shape, INT32)]


def _attention(node: Node, given: List[Value]) -> List[Value]:
    """GroupQueryAttention: one row of all heads a token; the caches are the inputs, not anew."""
    past = given[3].shape  # [1, kv_heads, rows, head_dim]
    made = given[0].shape[:2] + (node.attributes["num_heads"] * past[-1],)
    return [Value(made, given[0].element)] + [Value((0,), given[0].element)] * 2


def _residual_norm(node: Node, given: List[Value]) -> List[Value]:
    """Skip(Simplified)LayerNormalization: the norm, two that are not wanted, and the sum."""
    return [given[0], Value((0,), FLOAT), Value((0,), FLOAT), given[0]]


def _arg(node: Node, given: List[Value]) -> List[Value]:
    """ArgMax."""
    axis = (node.attributes.get("axis") or 0) % len(given[0].shape)
    shape = given[0].shape
    kept = (1,) if node.attributes.get("keepdims", 1) else ()
    return [Value(shape[:axis] + kept + shape[axis + 1 :], INT64)]


RULES: Dict[str, Any] = {
    "ArgMax": _arg,
    "AveragePool": _pool,
    "GroupQueryAttention": _attention,
    "SkipLayerNormalization": _residual_norm,
    "SkipSimplifiedLayerNormalization": _residual_norm,
    "Cast": _cast,
    "Concat": _concat,
    "DequantizeLinear": _numbers,
    "DynamicQuantizeLinear": _rounded,
    "Gather": _gather,
    "GatherBlockQuantized": _block_rows,
    "GatherND": _gather_nd,
    "Gemm": _gemm,
    "MatMul": _matmul,
    "MatMulInteger": _integer_product,
    "MatMulNBits": _block_product,
    "QuantizeLinear": _steps,
    "ReduceMax": _reduce,
    "ReduceMean": _reduce,
    "ReduceSum": _reduce,
    "Reshape": _reshape,
    "Shape": _shape_of,
    "Slice": _slice,
    "Split": _split,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
}
RULES.update(dict.fromkeys(("Add", "Sub", "Mul", "Div", "Mod", "Max", "Min", "Pow"), _elementwise))

__all__ = ["FLOAT", "INT32", "Value", "infer"]
