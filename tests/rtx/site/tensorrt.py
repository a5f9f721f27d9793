"""`import tensorrt` in a process of its own, with TensorRT for RTX on PYTHONPATH too."""

import importlib
import sys

sys.modules["tensorrt"] = importlib.import_module("tensorrt_rtx_bindings")
