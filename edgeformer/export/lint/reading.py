"""Read an ONNX file for the lint: no external data, no large weights kept, nothing trusted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError
from onnx import TensorProto

from edgeformer.errors import EdgeformerError

MOST_BYTES = 2**31 - 1  # protobuf's own limit
SMALL = 4096  # bytes: what rules look into, such as axes, scales and zero points


def read_model(path: Path) -> onnx.ModelProto:
    """The model with the types of its values, as far as ONNX can tell."""
    try:
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise EdgeformerError(
                f"{path} has {size} bytes; an ONNX file holds at most 2 GiB, larger weights belong "
                "into external data, which the lint does not read"
            )
        model = onnx.ModelProto.FromString(path.read_bytes())
    except OSError as error:
        raise EdgeformerError(f"{path} cannot be read: {error.strerror}") from error
    except DecodeError as error:
        raise EdgeformerError(
            f"{path} is not an ONNX file, or is cut off or nested too deeply: {error}"
        ) from error
    if not model.graph.node or not model.ir_version or not model.opset_import:
        raise EdgeformerError(
            f"{path} is not an ONNX model: it has {len(model.graph.node)} nodes, IR version "
            f"{model.ir_version} and {len(model.opset_import)} opsets"
        )
    _drop_weights(model)
    try:
        return with_types(model)
    except (onnx.shape_inference.InferenceError, ValueError, RuntimeError):
        return model  # the rules then know the types that the file states, and say so


def with_types(model: onnx.ModelProto, strict: bool = False) -> onnx.ModelProto:
    """A copy whose value_info is filled in; what strict inference rejects is an error."""
    return onnx.shape_inference.infer_shapes(model, check_type=strict, strict_mode=strict)


def _drop_weights(model: onnx.ModelProto) -> None:
    """Large tensors keep their type and size only: inference copies the model."""
    for tensor in _tensors(model):
        if tensor.ByteSize() > SMALL:
            for name in ("raw_data", "float_data", "int32_data", "int64_data", "double_data"):
                tensor.ClearField(name)
            tensor.ClearField("uint64_data")
            tensor.ClearField("string_data")
            tensor.data_location = TensorProto.EXTERNAL


def _tensors(model: onnx.ModelProto) -> Iterator[TensorProto]:
    waiting = [model.graph, *model.functions]
    while waiting:
        body = waiting.pop()
        if isinstance(body, onnx.GraphProto):
            yield from body.initializer
        for node in body.node:
            for attribute in node.attribute:
                yield from (attribute.t, *attribute.tensors)
                waiting.extend(graph for graph in (attribute.g, *attribute.graphs) if graph.node)
