"""Models of a few hand-made nodes, and what the lint says about them."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from edgeformer.export.lint import ERROR, lint_model
from edgeformer.export.lint.reading import with_types
from edgeformer.targets import parser_for

F32, F16, F64, BF16 = (
    TensorProto.FLOAT,
    TensorProto.FLOAT16,
    TensorProto.DOUBLE,
    TensorProto.BFLOAT16,
)
I64, I32, I8, U8, BOOL = (
    TensorProto.INT64,
    TensorProto.INT32,
    TensorProto.INT8,
    TensorProto.UINT8,
    TensorProto.BOOL,
)


def node(operator, inputs, outputs=("y",), name="n", **attributes):
    return helper.make_node(operator, list(inputs), list(outputs), name, **attributes)


def graph(nodes, inputs=None, constants=None, outputs=("y",), name="g"):
    """`inputs`: name -> type, of shape [2, 3], or (type, shape). Types of outputs are inferred."""
    values = []
    for key, kind in (inputs or {}).items():
        kind, shape = kind if isinstance(kind, tuple) else (kind, [2, 3])
        values.append(helper.make_tensor_value_info(key, kind, shape))
    stored = [numpy_helper.from_array(np.asarray(v), k) for k, v in (constants or {}).items()]
    ends = [helper.make_empty_tensor_value_info(name) for name in outputs]
    return helper.make_graph(list(nodes), name, values, ends, stored)


def model(*nodes, opset=13, ir=8, functions=(), **parts):
    domains = {n.domain for n in nodes} - {"", "ai.onnx"}
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)]
    made = graph(nodes, **parts)
    return helper.make_model(made, opset_imports=opsets, ir_version=ir, functions=list(functions))


def findings(made, version="8.2", target=None):
    return lint_model(with_types(made), parser_for(version), target=target)


def rules(made, version="8.2", target=None):
    return [finding.rule for finding in findings(made, version, target)]


def errors(made, version="8.2"):
    return [f"{f.rule}: {f.fact}" for f in findings(made, version) if f.severity == ERROR]
