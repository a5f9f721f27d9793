"""How much memory TensorRT and its libraries take beside the model, with the sources.

No board was at hand: these are others' measurements, and what follows from them is a prediction.
"""

from edgeformer.targets import Fact

MIB = 1 << 20

_LOG = "https://github.com/NVIDIA/TensorRT/issues/2217"
_RTX = "no public page: measured by this project, TensorRT for RTX 1.7.1 on an x86-64 PC"

# MiB that are gone before any weight is loaded. A tactic-source list without cuDNN may save its
# part; that has not been tried.
CUDA = Fact(229, _LOG, "Init CUDA, a Jetson's trtexec")
CUBLAS = Fact(182, _LOG, "Init cuBLAS")
CUDNN = Fact(241, _LOG, "Init cuDNN")
PROCESS = Fact(40, _LOG, "the process before Init CUDA")
ORT_PROCESS = Fact(
    200,
    "no public page: measured by this project, onnxruntime 1.32 on an x86-64 PC",
    "Python, numpy, onnxruntime and its copies beside the weights and the cache of a 135M model",
)

# An engine holds more than its weights: 550 MB of plan for 538 MB, 560 with a range of T.
PLAN = Fact(1.04, _RTX, "bytes of a plan for each byte of its weights")
# The builder: 1.15 GB for a graph of 250 MB, 1.95 GB for one of 538 MB.
BUILDER_BASE = Fact(455, _RTX, "MiB without any weights")
BUILDER_FACTOR = Fact(2.8, _RTX, "bytes for each byte of the graph's weights")
WORKSPACE = Fact(
    256,
    "https://github.com/jkjung-avt/tensorrt_demos/issues/293",
    "MiB of the first workspace that a build asks for",
)


def overhead() -> int:
    """Bytes of CUDA, cuBLAS, cuDNN and the process."""
    return sum(int(fact.value) for fact in (CUDA, CUBLAS, CUDNN, PROCESS)) * MIB
