"""Would a TensorRT version parse this ONNX file? Ours or anybody's: `python -m edgeformer.export
lint FILE.onnx`. The export checks its own graphs with the same rules.

The rules restate `trt_operators.csv` and, where they differ, the parser's sources. They are a
necessary condition: a clean file may still fail to build.
"""

from edgeformer.export.lint.engine import lint_model
from edgeformer.export.lint.finding import ERROR, NOTE, Finding

__all__ = ["ERROR", "NOTE", "Finding", "lint_model"]
