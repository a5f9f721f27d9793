"""Small ONNX graphs that a probe runs, written without onnx: products, and the nodes between."""

import zlib
from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

import numpy as np

from edgeformer.backends.rows import BUCKET
from edgeformer.engines.graphfile import FLOAT, INT8, INT64, UINT8
from edgeformer.speed.costs import Matrix

OPSET, IR = 13, 7
BETWEEN = 12  # nodes between two products


class ProbeGraph(NamedTuple):
    """The bytes of a model, what it is fed, and how many nodes it runs."""

    model: bytes
    inputs: Dict[str, np.ndarray]
    outputs: Dict[str, Tuple[int, ...]]  # float32, by name
    nodes: int


def products(matrices: Sequence[Matrix], tokens: int) -> ProbeGraph:
    """One product for each matrix, all of them apart, as the graphs of a bundle hold them."""
    nodes: List[bytes] = []
    tensors: List[bytes] = []
    inputs = {}
    outputs = {}
    for index, matrix in enumerate(matrices):
        source, result = f"x{matrix.inner}", f"y{index}"
        inputs[source] = _numbers(tokens, matrix.inner)
        if matrix.operator == "MatMul" and matrix.block:
            outputs[result] = (matrix.outer // matrix.block, tokens, matrix.block)
            made = _panel_product(matrix, source, result)
        else:
            outputs[result] = (tokens, matrix.outer)
            made = _PRODUCTS[matrix.operator](matrix, source, result)
        nodes += made[0]
        tensors += made[1]
    return ProbeGraph(_model(nodes, tensors, inputs, outputs), inputs, outputs, len(matrices))


def layers(count: int, kv_heads: int, group: int, width: int, nodes: bool) -> ProbeGraph:
    """`count` products, one after the other, with or without what stands between two of a model:
    a rotation, attention to a bucket of cached rows, and their joints, for one token.
    """
    half, flat = width // 2, kv_heads * group * width
    tensors = [
        _tensor("halves", INT64, (2,), np.array([half, width - half], np.int64)),
        _tensor("flat", INT64, (2,), np.array([1, flat], np.int64)),
        _tensor("heads", INT64, (3,), np.array([kv_heads, group, width], np.int64)),
    ]
    made, last = [], "x"
    for layer in range(count):
        weight = f"{layer}.w"
        matrix = Matrix(flat, flat, "MatMul", 32)
        tensors.append(_tensor(weight, FLOAT, (flat, flat), _weights(matrix, weight)))
        if nodes:
            made += _between(f"{layer}.", last)
            last = f"{layer}.joined"
        made.append(_node("MatMul", [last, weight], [f"{layer}.out"]))
        last = f"{layer}.out"
    shape = (kv_heads, group, width)
    shapes = {
        "x": (1, flat),
        "cosine": shape,
        "keys": (kv_heads, width, BUCKET),
        "mask": (1, 1, BUCKET),
        "values": (kv_heads, BUCKET, width),
        "residual": (1, flat),
    }
    inputs = {name: np.full(size, 0.1, np.float32) for name, size in shapes.items()}
    if not nodes:
        inputs = {"x": inputs["x"]}
    outputs = {last: (1, flat)}
    total = count * (1 + (BETWEEN if nodes else 0))
    return ProbeGraph(_model(made, tensors, inputs, outputs), inputs, outputs, total)


def _between(prefix: str, source: str) -> List[bytes]:
    """BETWEEN nodes: [1, heads * width] -> the same."""
    split, scaled, left, right, turned, rotated = (
        prefix + name for name in ("split", "scaled", "left", "right", "turned", "rotated")
    )
    scores, masked, shares, mixed, swapped, flat, out = (
        prefix + name
        for name in ("scores", "masked", "shares", "mixed", "swapped", "flat", "joined")
    )
    return [
        _node("Reshape", [source, "heads"], [split]),
        _node("Mul", [split, "cosine"], [scaled]),
        _node("Split", [scaled, "halves"], [left, right], axis=2),
        _node("Concat", [right, left], [turned], axis=2),
        _node("Add", [turned, split], [rotated]),
        _node("MatMul", [rotated, "keys"], [scores]),
        _node("Add", [scores, "mask"], [masked]),
        _node("Softmax", [masked], [shares], axis=2),
        _node("MatMul", [shares, "values"], [mixed]),
        _node("Transpose", [mixed], [swapped], perm=[1, 0, 2]),
        _node("Reshape", [swapped, "flat"], [flat]),
        _node("Add", [flat, "residual"], [out]),
    ]


def _float_product(matrix: Matrix, source: str, result: str) -> Tuple[List[bytes], List[bytes]]:
    weight = _tensor(result + ".w", FLOAT, (matrix.inner, matrix.outer), _weights(matrix, result))
    return [_node("MatMul", [source, result + ".w"], [result])], [weight]


def _panel_product(matrix: Matrix, source: str, result: str) -> Tuple[List[bytes], List[bytes]]:
    sizes = (matrix.outer // matrix.block, matrix.inner, matrix.block)
    weight = _tensor(result + ".w", FLOAT, sizes, _weights(matrix, result))
    return [_node("MatMul", [source, result + ".w"], [result])], [weight]


def _block_product(matrix: Matrix, source: str, result: str) -> Tuple[List[bytes], List[bytes]]:
    blocks = -(-matrix.inner // matrix.block)
    packed = _weights(matrix, result)
    shape = (matrix.outer, blocks, matrix.block * matrix.bits // 8)
    scales = np.full(matrix.outer * blocks, 0.01, np.float32)
    names = [source, result + ".w", result + ".scale"]
    sizes = {"K": matrix.inner, "N": matrix.outer, "bits": matrix.bits, "block_size": matrix.block}
    node = _node("MatMulNBits", names, [result], domain="com.microsoft", accuracy_level=4, **sizes)
    return [node], [
        _tensor(names[1], UINT8, shape, packed),
        _tensor(names[2], FLOAT, scales.shape, scales),
    ]


def _integer_product(matrix: Matrix, source: str, result: str) -> Tuple[List[bytes], List[bytes]]:
    """The five nodes that ONNX Runtime makes one of."""
    steps, scale, zero = (f"{result}.{part}" for part in ("steps", "scale", "zero"))
    sums, floats, both = (f"{result}.{part}" for part in ("sums", "floats", "both"))
    nodes = [
        _node("DynamicQuantizeLinear", [source], [steps, scale, zero]),
        _node("MatMulInteger", [steps, result + ".w", zero], [sums]),
        _node("Cast", [sums], [floats], to=FLOAT),
        _node("Mul", [scale, result + ".column"], [both]),
        _node("Mul", [floats, both], [result]),
    ]
    weight = _weights(matrix, result)
    column = np.full(matrix.outer, 0.01, np.float32)
    return nodes, [
        _tensor(result + ".w", INT8, (matrix.inner, matrix.outer), weight),
        _tensor(result + ".column", FLOAT, column.shape, column),
    ]


_PRODUCTS: Dict[str, Any] = {
    "Gemm": _float_product,
    "MatMul": _float_product,
    "MatMulInteger": _integer_product,
    "MatMulNBits": _block_product,
}


def _numbers(tokens: int, width: int) -> np.ndarray:
    return np.linspace(-1, 1, tokens * width, dtype=np.float32).reshape(tokens, width)


def _weights(matrix: Matrix, name: str) -> np.ndarray:
    """Random bytes of a matrix, other ones for each name: ONNX Runtime keeps equal ones once."""
    numbers = np.random.RandomState(zlib.crc32(name.encode("ascii")))
    if matrix.bits == 32:
        return (numbers.random_sample(matrix.elements) - 0.5).astype(np.float32)
    size = matrix.outer * -(-matrix.inner // (matrix.block or 1)) * (matrix.block or 1)
    return numbers.randint(0, 256, size * matrix.bits // 8).astype(np.uint8)


def _model(
    nodes: List[bytes],
    tensors: List[bytes],
    inputs: Dict[str, np.ndarray],
    outputs: Dict[str, Tuple[int, ...]],
) -> bytes:
    graph = b"".join(_field(1, node) for node in nodes) + _text(2, "probe")
    graph += b"".join(_field(5, tensor) for tensor in tensors)
    graph += b"".join(_field(11, _value(name, array.shape)) for name, array in inputs.items())
    graph += b"".join(_field(12, _value(name, shape)) for name, shape in outputs.items())
    opsets = _field(8, _integer(2, OPSET)) + _field(8, _text(1, "com.microsoft") + _integer(2, 1))
    return _integer(1, IR) + _field(7, graph) + opsets


def _node(
    operator: str, inputs: List[str], outputs: List[str], domain: str = "", **attributes: Any
) -> bytes:
    made = b"".join(_text(1, name) for name in inputs)
    made += b"".join(_text(2, name) for name in outputs)
    made += _text(3, outputs[0] + "/" + operator) + _text(4, operator)
    for name, value in attributes.items():
        if isinstance(value, list):
            body = b"".join(_integer(8, number) for number in value) + _integer(20, 7)
        else:
            body = _integer(3, value) + _integer(20, 2)
        made += _field(5, _text(1, name) + body)
    return made + (_text(7, domain) if domain else b"")


def _tensor(name: str, element: int, shape: Tuple[int, ...], array: np.ndarray) -> bytes:
    dims = b"".join(_integer(1, size) for size in shape)
    return dims + _integer(2, element) + _text(8, name) + _field(9, array.tobytes())


def _value(name: str, shape: Tuple[int, ...]) -> bytes:
    dims = b"".join(_field(1, _integer(1, size)) for size in shape)
    return _text(1, name) + _field(2, _field(1, _integer(1, FLOAT) + _field(2, dims)))


def _text(number: int, text: str) -> bytes:
    return _field(number, text.encode("ascii"))


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _integer(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value)


def _varint(value: int) -> bytes:
    made = bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    made.append(value)
    return bytes(made)
