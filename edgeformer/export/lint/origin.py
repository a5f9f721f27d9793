"""The PyTorch module that a node came from, where the exporter has left a trace of it."""

from __future__ import annotations

import ast

import onnx

from edgeformer.contract import FP32_PREFIX

SCOPES, CLASSES = "pkg.torch.onnx.name_scopes", "pkg.torch.onnx.class_hierarchy"
MOST = 4096  # characters of a list that is worth reading


def origin(node: onnx.NodeProto) -> str:
    """`model.layers.0.attn (Attention)`; without the class where only the name tells; or "".

    torch's tracing exporter and optimum put the path into the node's name; torch's newer one has
    lists in the metadata, from the whole model to the operation itself.
    """
    properties = {entry.key: entry.value for entry in node.metadata_props}
    names, kinds = _list(properties.get(SCOPES)), _list(properties.get(CLASSES))
    if len(names) >= 2:
        path = names[-2]
        kind = kinds[-2].rpartition(".")[2] if len(kinds) == len(names) else ""
        return f"{path} ({kind})" if path and kind else path or kind
    return module_path(node.name) if "/" in node.name else ""


def module_path(node_name: str) -> str:
    return ".".join(node_name.removeprefix(FP32_PREFIX).strip("/").split("/")[:-1])


def _list(text: str | None) -> list[str]:
    if not text or len(text) > MOST:
        return []
    try:
        found = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return []
    return [str(item) for item in found] if isinstance(found, list) else []
