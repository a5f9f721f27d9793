"""For each rule a model that breaks it and one that is as near as can be and does not.

(rule, TensorRT version, bad, good): `good` is a model, or the version in which `bad` is right.
"""

import numpy as np
from onnx import helper

from tests.export.lint.cases_whole import WHOLE, unary
from tests.export.lint.nodes import BF16, BOOL, F16, F32, F64, I8, I32, I64, U8, graph, model, node

ZERO = np.int8(0)
AXES = np.array([0], np.int64)
FUNCTION = helper.make_function(
    "own", "Twice", ["a"], ["b"], [node("Add", "aa", "b")], [helper.make_opsetid("", 13)]
)


def cast(kind):
    return model(node("Cast", "x", to=kind), inputs={"x": F32})


def topk(k=None, kind=F32):
    inputs = {"x": kind} if k is not None else {"x": kind, "k": (I64, [1])}
    constants = {} if k is None else {"k": np.array([k], np.int64)}
    return model(node("TopK", "xk", "yi"), inputs=inputs, constants=constants)


def slice_(axes, computed=False):
    bounds = {"s": np.zeros(len(axes), np.int64), "e": np.ones(len(axes), np.int64)}
    inputs = {"x": F32, **({"a": (I64, [len(axes)])} if computed else {})}
    constants = bounds if computed else {**bounds, "a": np.array(axes, np.int64)}
    return model(node("Slice", "xsea"), inputs=inputs, constants=constants)


def axes(operator, computed, opset=13, **attributes):
    inputs = {"x": (F32, [1, 3]), **({"a": (I64, [1])} if computed else {})}
    constants = {} if computed else {"a": AXES}
    made = node(operator, "xa", **attributes)
    return model(made, inputs=inputs, constants=constants, opset=opset)


def cumsum(computed, kind=F32):
    inputs = {"x": kind, **({"a": (I64, [])} if computed else {})}
    return model(
        node("CumSum", "xa"), inputs=inputs, constants={} if computed else {"a": np.int64(0)}
    )


def range_(kind, constant=False, cast=False):
    parts = {"s": kind, "l": kind, "d": kind}
    if cast:
        casts = [node("Cast", key, key.upper(), f"cast-{key}", to=kind) for key in parts]
        inputs = {key: (I32, []) for key in parts}
        return model(*casts, node("Range", "SLD"), inputs=inputs)
    if constant:
        values = {name: np.float32(i + 1) for i, name in enumerate("sld")}
        return model(node("Range", "sld"), constants=values)
    return model(node("Range", "sld"), inputs={name: (kind, []) for name in parts})


def where(kind):
    return model(node("Where", "cab"), inputs={"c": BOOL, "a": kind, "b": kind})


def gather(kind):
    return model(node("Gather", "xi"), inputs={"x": kind, "i": (I64, [1])})


def binary(operator, kind):
    return model(node(operator, "ab"), inputs={"a": kind, "b": kind})


def clip(kind, computed):
    bounds = {"lo": np.zeros((), np.float16)} if not computed else {}
    inputs = {"x": kind, **({"lo": (kind, [])} if computed else {})}
    return model(node("Clip", ["x", "lo"]), inputs=inputs, constants=bounds)


def constant(**value):
    return model(
        node("Constant", [], ["c"], **value),
        node("Identity", "c"),
        opset=13,
    )


def fill(dtype):
    value = helper.make_tensor("v", dtype, [1], [1])
    return model(node("ConstantOfShape", "s", value=value), inputs={"s": (I64, [2])})


def quantize(scale=0.1, zero=ZERO, weight=False, axis=0):
    constants = {"s": np.asarray(scale, np.float32)}
    names = ["x", "s"]
    if zero is not None:
        constants["z"], names = np.asarray(zero), ["x", "s", "z"]
    if weight:
        constants["x"] = np.ones((2, 3), np.float32)
    inputs = {} if weight else {"x": F32}
    return model(node("QuantizeLinear", names, axis=axis), inputs=inputs, constants=constants)


def branches(first, second):
    then = graph([node("Relu", "x", [first], "t")], outputs=(first,), name="then")
    other = graph([node("Neg", "x", [second], "o")], outputs=(second,), name="else")
    made = node("If", "c", then_branch=then, else_branch=other)
    return model(made, inputs={"c": (BOOL, []), "x": F32})


def loop():
    body = graph(
        [node("Identity", ["on"], ["go"], "i"), node("Relu", ["v"], ["w"], "r")],
        inputs={"k": (I64, []), "on": (BOOL, []), "v": F32},
        outputs=("go", "w"),
        name="body",
    )
    return model(
        node("Loop", ["n", "", "x"], body=body), inputs={"x": F32}, constants={"n": np.int64(2)}
    )


def scatter(reduction):
    made = node("ScatterND", "xiu", **({"reduction": reduction} if reduction else {}))
    return model(made, inputs={"x": F32, "i": (I64, [1, 2]), "u": (F32, [1])}, opset=16)


def resize(**attributes):
    made = node("Resize", ["x", "", "s"], **attributes)
    return model(made, inputs={"x": F32}, constants={"s": np.ones(2, np.float32)})


def plus(value):
    return model(node("Add", "xc"), inputs={"x": F32}, constants={"c": np.float32(value)})


def int_plus(value):
    return model(node("Add", "xc"), inputs={"x": I64}, constants={"c": np.int64(value)})


def one_hot(computed):
    constants = {"v": np.array([0, 1], np.float32), **({} if computed else {"d": np.int64(3)})}
    inputs = {"x": I64, **({"d": (I64, [])} if computed else {})}
    return model(node("OneHot", "xdv"), inputs=inputs, constants=constants)


def conv(computed):
    inputs = {"x": (F32, [1, 1, 4, 4]), **({"w": (F32, [1, 1, 2, 2])} if computed else {})}
    constants = {} if computed else {"w": np.ones((1, 1, 2, 2), np.float32)}
    return model(node("Conv", "xw"), inputs=inputs, constants=constants)


def dropout(mode):
    constants = {"r": np.float32(0.5), "m": np.array(mode)}
    return model(node("Dropout", "xrm"), inputs={"x": F32}, constants=constants)


def norm(outputs, opset=17):
    constants = {"w": np.ones(3, np.float32)}
    return model(
        node("LayerNormalization", "xw", outputs),
        inputs={"x": F32},
        constants=constants,
        opset=opset,
    )


def pool(outputs):
    made = node("MaxPool", "x", outputs, kernel_shape=[2, 2])
    return model(made, inputs={"x": (F32, [1, 1, 4, 4])})


def einsum(equation, shapes=((2, 3), (3, 4))):
    inputs = {name: (F32, list(shape)) for name, shape in zip("ab", shapes)}
    return model(node("Einsum", "ab", equation=equation), inputs=inputs)


def trilu(rank):
    return model(node("Trilu", "x"), inputs={"x": (F32, [2] * rank)}, opset=14)


def mod(kind, fmod):
    return model(node("Mod", "ab", fmod=fmod), inputs={"a": kind, "b": kind})


def pad(mode, opset=13):
    constants = {"p": np.ones(4, np.int64)}
    return model(node("Pad", "xp", mode=mode), inputs={"x": F32}, constants=constants, opset=opset)


UNKNOWN = model(node("Mystery", "x", ["h"], domain="own"), node("Relu", "h"), inputs={"x": F32})

CASES = [
    *WHOLE,
    ("opset", "8.2", model(node("Relu", "x"), inputs={"x": F32}, opset=14), unary("Relu", F32)),
    ("ir", "8.2", model(node("Relu", "x"), inputs={"x": F32}, ir=9), unary("Relu", F32)),
    (
        "function",
        "8.6",
        model(node("Twice", "x", domain="own"), inputs={"x": F32}, functions=[FUNCTION]),
        "10",
    ),
    ("int64", "8.6", unary("Neg", I64), "10"),
    ("double", "10", unary("Neg", F64), unary("Neg", F32)),
    ("types-unknown", "8.2", UNKNOWN, unary("Relu", F32)),
    ("op-missing", "8.2", trilu(2), "8.5"),
    ("op-missing", "8.5", norm("y"), "8.6"),
    ("op-missing", "8.2", mod(I32, 0), "8.5"),
    ("op-missing", "8.2", unary("NonZero", F32), "8.5"),
    ("op-missing", "8.2", one_hot(False), "8.5"),
    ("op-missing", "8.5", unary("IsInf", F32), "8.6"),
    ("op-missing", "8.6", model(node("Gelu", "x"), inputs={"x": F32}, opset=20), "10"),
    ("domain", "10", UNKNOWN, unary("Relu", F32)),
    (
        "domain",
        "8.2",
        model(node("Gelu", "x", domain="com.microsoft"), inputs={"x": F32}),
        unary("Relu", F32),
    ),
    ("dtype", "8.2", where(BOOL), "8.5"),
    ("dtype", "8.2", where(BOOL), where(I64)),
    ("dtype", "8.2", gather(BOOL), "8.5"),
    ("dtype", "8.2", gather(BOOL), gather(I64)),
    ("dtype", "10", binary("Equal", BOOL), binary("Equal", I32)),
    (
        "dtype",
        "8.2",
        binary("MatMul", I32),
        model(node("MatMul", "ab"), inputs={"a": (F32, [2, 2]), "b": (F32, [2, 2])}),
    ),
    (
        "dtype",
        "10",
        model(node("Gemm", "ab"), inputs={"a": (I32, [2, 2]), "b": (I32, [2, 2])}),
        model(node("Gemm", "ab"), inputs={"a": (F16, [2, 2]), "b": (F16, [2, 2])}),
    ),
    ("dtype", "8.6", binary("Pow", I32), binary("Pow", F32)),
    ("dtype", "8.2", model(node("Pow", "ab"), inputs={"a": F32, "b": I64}), binary("Pow", F16)),
    ("dtype", "8.2", cumsum(False, I64), cumsum(False, F32)),
    ("dtype", "8.2", topk(2, I64), "8.6"),
    ("dtype", "8.5", unary("ArgMax", I32), "8.6"),
    ("dtype", "8.2", unary("Neg", BF16), "10"),
    ("dtype", "8.2", unary("Identity", U8), unary("Identity", I8)),
    ("dtype", "8.2", unary("Abs", I8), unary("Abs", I32)),
    ("dtype", "8.2", unary("ReduceMax", I64), unary("ReduceMax", F32)),
    ("cast-target", "8.5", cast(U8), "8.6"),
    ("cast-target", "8.6", cast(BF16), "10"),
    ("cast-target", "8.2", cast(U8), cast(I64)),
    ("range-type", "8.2", range_(F32, cast=True), "8.5"),
    ("range-type", "10", range_(F32), range_(I64)),
    ("range-type", "10", range_(F32), range_(F32, cast=True)),
    ("range-type", "8.2", range_(F32), range_(F32, constant=True)),
    ("clip-fp16", "10", clip(F16, computed=True), clip(F16, computed=False)),
    ("clip-fp16", "8.2", clip(F16, computed=True), clip(F32, computed=True)),
    ("fill-type", "8.2", fill(I64), fill(F32)),
    ("fill-type", "8.6", fill(I64), "10"),
    ("int64-value", "8.2", int_plus(2**31), int_plus(2**31 - 1)),
    ("int64-value", "8.6", int_plus(-(2**31) - 1), "10"),
    ("fp16-value", "8.2", plus(-3.4e38), plus(-1e4)),
    (
        "fp16-statistics",
        "8.2",
        unary("ReduceMean", F16, axes=[1]),
        unary("ReduceMean", F32, axes=[1]),
    ),
    ("constant-input", "8.5", topk(), "8.6"),
    ("constant-input", "8.2", topk(), topk(2)),
    ("constant-input", "8.2", slice_([0], computed=True), slice_([0])),
    ("constant-input", "8.2", axes("Squeeze", True), axes("Squeeze", False)),
    ("constant-input", "10", axes("Unsqueeze", True), axes("Unsqueeze", False)),
    ("constant-input", "8.2", axes("ReduceSum", True), axes("ReduceSum", False)),
    (
        "constant-input",
        "10",
        axes("ReduceMean", True, opset=18),
        axes("ReduceMean", False, opset=18),
    ),
    ("constant-input", "8.2", cumsum(True), cumsum(False)),
    ("constant-input", "8.2", conv(True), "8.5"),
    ("constant-input", "8.2", conv(True), conv(False)),
    ("constant-input", "10", one_hot(True), one_hot(False)),
    ("constant-input", "10", one_hot(True), "8.6"),
    ("reduce-axes", "8.6", axes("ReduceMean", False, opset=18), "10"),
    ("reduce-axes", "8.2", axes("ReduceMax", False, opset=18), unary("ReduceMax", F32, axes=[0])),
    ("reduce-axes", "8.2", axes("ReduceMax", False, opset=18), axes("ReduceSum", False)),
    ("topk-limit", "8.2", topk(3841), topk(3840)),
    ("slice-axes", "8.2", slice_([0, -2]), slice_([0, 1])),
    ("constant-attribute", "8.6", constant(value_int=3), "10"),
    ("constant-attribute", "8.2", constant(value_ints=[3]), constant(value_floats=[3.0])),
    (
        "constant-attribute",
        "10",
        constant(value_string="a"),
        constant(value=helper.make_tensor("v", I64, [1], [3])),
    ),
    ("training", "8.2", dropout(True), dropout(False)),
    (
        "shape-part",
        "10",
        model(node("Shape", "x", start=1), inputs={"x": F32}, opset=15),
        model(node("Shape", "x", start=0), inputs={"x": F32}, opset=15),
    ),
    (
        "shape-part",
        "8.2",
        model(node("Shape", "x", end=0), inputs={"x": F32}, opset=15),
        unary("Shape", F32),
    ),
    ("resize-mode", "8.2", resize(mode="cubic"), "8.6"),
    (
        "resize-mode",
        "8.2",
        resize(mode="nearest", coordinate_transformation_mode="tf_crop_and_resize"),
        resize(mode="linear", coordinate_transformation_mode="align_corners"),
    ),
    ("pad-mode", "8.6", pad("wrap", opset=19), "10"),
    ("pad-mode", "8.2", pad("wrap", opset=19), pad("reflect")),
    ("scatter-reduction", "8.2", scatter("add"), scatter(None)),
    ("mod-fmod", "8.5", mod(F32, 0), mod(F32, 1)),
    ("mod-fmod", "8.5", mod(I32, 1), mod(I64, 0)),
    ("trilu-rank", "8.5", trilu(4), "8.6"),
    ("trilu-rank", "8.5", trilu(4), trilu(3)),
    ("einsum-equation", "8.2", einsum("...i,ij->...j"), "10"),
    ("einsum-equation", "8.2", einsum("Ij,jk->Ik"), einsum("ij,jk->ik")),
    ("einsum-equation", "8.6", einsum("ii,ij->ij", ((3, 3), (3, 4))), einsum("ij,jk->ik")),
    ("extra-output", "8.2", pool("yi"), pool("y")),
    ("extra-output", "8.6", norm(["y", "m"]), norm("y")),
    ("if-branches", "8.2", branches("p", "p"), branches("p", "q")),
    ("loop", "8.2", loop(), unary("Relu", F32)),
    ("loop", "8.2", cumsum(False), unary("Relu", F32)),
    ("data-dependent", "8.5", unary("NonZero", F32), unary("Relu", F32)),
    ("qdq-zero-point", "8.2", quantize(zero=None), quantize()),
    ("qdq-zero-point", "8.2", quantize(zero=None), "10"),
    ("qdq-zero-point", "8.2", quantize(zero=np.int8(3)), quantize()),
    ("qdq-zero-point", "10", quantize(zero=np.uint8(0)), quantize()),
    ("qdq-scale", "8.2", quantize(scale=0.0), quantize()),
    (
        "qdq-scale",
        "8.2",
        quantize([0.1, 0.2], np.int8(0), weight=True),
        quantize([0.1, 0.2], np.zeros(2, np.int8), weight=True),
    ),
    (
        "qdq-axis",
        "8.2",
        quantize([0.1, 0.2], np.zeros(2, np.int8)),
        quantize([0.1, 0.2], np.zeros(2, np.int8), weight=True),
    ),
    (
        "qdq-axis",
        "8.2",
        quantize([0.1, 0.2], np.zeros(2, np.int8), weight=True, axis=1),
        quantize([0.1] * 3, np.zeros(3, np.int8), weight=True, axis=1),
    ),
]
