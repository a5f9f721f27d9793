"""Cases of `cases.py` for the rules about a file as a whole and about what ONNX itself asks for."""

from onnx import TensorProto

from tests.export.lint.nodes import F16, F32, F64, I32, I64, model, node


def unary(operator, kind, **options):
    return model(node(operator, "x", **options), inputs={"x": kind})


def add(one, other):
    return model(node("Add", "ab"), inputs={"a": one, "b": other})


def external(location="w.bin", length=24):
    tensor = TensorProto(name="w", data_type=F32, dims=[2, 3], data_location=TensorProto.EXTERNAL)
    for key, value in (("location", location), ("length", length)):
        tensor.external_data.add(key=key, value=str(value))
    made = model(node("Add", "xw"), inputs={"x": F32})
    made.graph.initializer.append(tensor)
    return made


def chain(*nodes):
    """Nodes of one input and one output each, by their names: "xa" reads x and makes a."""
    made = [node("Relu", reads, makes, f"n{i}") for i, (reads, makes) in enumerate(nodes)]
    return model(*made, inputs={"x": F32})


def product(rows):
    inputs = {"a": (F32, [2, 3]), "b": (F32, [rows, 4])}
    return model(node("MatMul", "ab"), inputs=inputs)


def index(kind):
    return model(node("Gather", "xi"), inputs={"x": F32, "i": (kind, [1])})


def concat(**attributes):
    return model(node("Concat", "xx", **attributes), inputs={"x": F32})


WHOLE = [
    ("opset", "10", model(node("Relu", "x"), inputs={"x": F32}, opset=6), unary("Relu", F32)),
    ("names", "10", chain("ab", "by"), chain("xb", "by")),
    ("names", "8.2", chain("xb", "xb", "by"), chain("by", "xb")),
    ("names", "10", chain("xc", "ab", "ba", "cy"), chain("by", "ab", "xa")),
    ("names", "10", chain("xb"), chain("xy")),
    ("sizes", "10", product(4), product(3)),
    ("sizes", "8.2", concat(axis=2), concat(axis=1)),
    ("external-data", "8.2", external(location="../w.bin"), external(location="in/w.bin")),
    ("external-data", "10", external(location="/w.bin"), external()),
    ("external-data", "10", external(length=23), external(length=24)),
    ("schema", "10", concat(), concat(axis=-1)),
    ("schema", "8.2", unary("Relu", F32, alpha=1.0), unary("LeakyRelu", F32, alpha=1.0)),
    (
        "schema",
        "10",
        model(node("Gemm", "a"), inputs={"a": F32}),
        model(node("Gemm", "ab"), inputs={"a": (F32, [2, 2]), "b": (F32, [2, 2])}),
    ),
    ("mixed-types", "10", add(F32, F16), add(F16, F16)),
    ("mixed-types", "8.2", add(F32, I64), add(F32, F64)),
    ("mixed-types", "10", add(I32, I64), "8.6"),
    ("index-type", "8.2", index(F32), index(I64)),
]
