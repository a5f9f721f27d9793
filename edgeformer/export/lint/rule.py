"""The list of rules. A rule looks at one node and says what one TensorRT version has against it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from edgeformer.export.lint.graph import Site


@dataclass(frozen=True)
class Problem:
    """What a rule has found. `note`: TensorRT takes it, yet does something worth knowing."""

    fact: str
    rewrite: str = ""
    note: bool = False


Check = Callable[[Site], Iterator[Problem]]


@dataclass(frozen=True)
class Rule:
    """`operators` empty: every node whose operator the version has."""

    id: str
    operators: tuple[str, ...]
    title: str
    check: Check


RULES: list[Rule] = []
# Rules about a file or about operators that are missing; the engine itself applies them.
FILE_RULES = {
    "opset": "the opset is newer than the parser documents, or older than 7",
    "ir": "the IR version is newer than the parser was built for, or than the Nano's onnxruntime",
    "names": "a name that nothing makes or that is made twice, or nodes in a circle",
    "sizes": "sizes that do not fit, by ONNX's own inference",
    "external-data": "weights outside the file's folder, or of another length than their tensor",
    "function": "functions of the model's own, before TensorRT 9",
    "int64": "INT64 becomes INT32 before TensorRT 9 (note)",
    "double": "DOUBLE becomes FP32 (note)",
    "int8-hardware": "Quantize/Dequantize nodes for a target without INT8",
    "types-unknown": "types that could not be inferred, so were not checked (note)",
    "op-missing": "the version has no such operator",
    "domain": "an operator that is not standard ONNX, such as com.microsoft",
}


def rule(id: str, *operators: str, title: str) -> Callable[[Check], Check]:
    """Put a check in the list."""

    def listed(check: Check) -> Check:
        RULES.append(Rule(id, operators, title, check))
        return check

    return listed
