"""optimum-onnx: the graph with a cache that it exports, in a loop without `generate`'s cost.

python -m benchmarks.peers.workers.optimum_onnx FOLDER OUT   writes the graph in dynamic int8
"""

import shutil
import sys
from pathlib import Path
from typing import Any, Dict, List

import numpy as np
import onnxruntime
import torch
from optimum.onnxruntime import ORTModelForCausalLM

from benchmarks.peers.workers.loop import Engine, serve


class Optimum(Engine):
    packages = ("optimum-onnx", "optimum", "transformers", "onnxruntime", "torch")

    def __init__(self, request: Dict[str, Any]) -> None:
        torch.set_num_threads(request["threads"])
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = request["threads"]
        self.model = ORTModelForCausalLM.from_pretrained(
            request["model"], session_options=options, provider="CPUExecutionProvider"
        )

    def reset(self) -> None:
        self.past, self.seen = None, 0

    def first(self, ids: List[int]) -> int:
        return self._step(ids)

    def next(self, token: int) -> int:
        return self._step([token])

    def _step(self, ids: List[int]) -> int:
        return int(self._run(ids)[-1].argmax())

    def _run(self, ids: List[int]) -> Any:
        at = torch.arange(self.seen, self.seen + len(ids))[None]
        self.seen += len(ids)
        out = self.model(
            torch.tensor([ids]),
            attention_mask=torch.ones(1, self.seen, dtype=torch.int64),
            position_ids=at,
            past_key_values=self.past,
            use_cache=True,
        )
        self.past = out.past_key_values
        return out.logits[0]

    def logits(self, ids: List[int]) -> np.ndarray:
        self.reset()
        return self._run(ids).numpy()


def quantize(source: Path, target: Path) -> None:
    """Dynamic int8, a scale for each channel: onnxruntime's own tool, which optimum wraps."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    target.mkdir()
    for path in source.iterdir():
        if path.is_file() and not path.name.startswith("model.onnx"):
            shutil.copy(path, target / path.name)
    quantize_dynamic(
        source / "model.onnx", target / "model.onnx", per_channel=True, weight_type=QuantType.QInt8
    )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        quantize(Path(sys.argv[1]), Path(sys.argv[2]))
    else:
        serve(Optimum)
