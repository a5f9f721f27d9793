"""Exported graphs in ONNX Runtime, called like the modules that they were traced from."""

from pathlib import Path

import onnx
import onnxruntime as ort
import torch

from edgeformer.export import Exported, export_decoder
from edgeformer.nn.decoder import Decoder
from tests.nn.choices import PROMPT, choice_decoder
from tests.nn.rows import Rows

CAPACITY, CHUNK = 72, 5  # 64 steps after PROMPT; a chunk that does not divide it


class Bundles:
    """Exports on demand, and remembers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.made: dict[str, Exported] = {}

    def __getitem__(self, name: str) -> Exported:
        if name not in self.made:
            self.made[name] = export_decoder(
                choice_decoder(name),
                self.folder / name,
                name=name,
                capacity=CAPACITY,
                chunk=CHUNK,
                golden_prompt=PROMPT,
                target="cpu",  # what FP16 would make of it is not asked here
                dialect="portable",
            )
        return self.made[name]


class GraphRows(Rows):
    """A cache with shuffled rows among garbage, stepped by the two graphs of a bundle."""

    def __init__(self, decoder: Decoder, capacity: int, bundle: Path) -> None:
        super().__init__(decoder, capacity)
        self.many, self.one = (callable_graph(bundle / f"{k}.onnx") for k in ("prefill", "decode"))


def callable_graph(path: Path):
    """The graph as a function of tensors in the order of its contract."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_inputs()]

    def call(*tensors: torch.Tensor) -> list[torch.Tensor]:
        feeds = {name: t.numpy() for name, t in zip(names, tensors, strict=True)}
        return [torch.from_numpy(array) for array in session.run(None, feeds)]

    return call


def graph_of(bundle: Path, kind: str) -> onnx.ModelProto:
    """The graph without its external weights."""
    return onnx.load(str(bundle / f"{kind}.onnx"), load_external_data=False)
