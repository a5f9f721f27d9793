"""Make data/llama-dynamo-18.onnx again: `python -m tests.export.lint.make_dynamo`.

torch's newer exporter needs the package onnxscript, which nothing else here does; so its file is
committed, without weights: the lint never looks at them.
"""

import sys
from pathlib import Path

import onnx
from onnx import TensorProto

from tests.export.lint import foreign

PATH = Path(__file__).parent / "data" / "llama-dynamo-18.onnx"
# A stack trace names files of the machine that exported.
KEPT = ("pkg.torch.onnx.name_scopes", "pkg.torch.onnx.class_hierarchy")


def main() -> int:
    PATH.parent.mkdir(exist_ok=True)
    foreign.export(foreign.llama, PATH, 18, dynamo=True)
    model = onnx.load(PATH)
    for tensor in model.graph.initializer:
        if len(tensor.raw_data) >= 256:
            tensor.ClearField("raw_data")
            tensor.data_location = TensorProto.EXTERNAL
            tensor.external_data.add(key="location", value="gone.bin")
    for node in model.graph.node:
        kept = [entry for entry in node.metadata_props if entry.key in KEPT]
        kept = [(entry.key, entry.value) for entry in kept]
        del node.metadata_props[:]
        for key, value in kept:
            node.metadata_props.add(key=key, value=value)
        node.doc_string = ""
    for value in (*model.graph.value_info, *model.graph.input, *model.graph.output):
        del value.metadata_props[:]
    del model.graph.metadata_props[:]
    PATH.write_bytes(model.SerializeToString(deterministic=True))
    return 0


if __name__ == "__main__":
    sys.exit(main())
