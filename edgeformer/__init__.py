"""Train or bring a small transformer in PyTorch, export it, stream text on a Jetson Nano."""

from edgeformer.errors import BundleError, CheckFailed, EdgeformerError
from edgeformer.generation.params import SamplingParams
from edgeformer.generation.steps import Generation, Stats, Step
from edgeformer.model import Model, load

__version__ = "0.1.0"

__all__ = [
    "BundleError",
    "CheckFailed",
    "EdgeformerError",
    "Generation",
    "Model",
    "SamplingParams",
    "Stats",
    "Step",
    "load",
]
