"""Hugging Face transformers: eager mode, its own cache, a loop that costs less than its own."""

from typing import Any, Dict, List

import numpy as np
import torch
from transformers import AutoModelForCausalLM, DynamicCache

from benchmarks.peers.workers.loop import Engine, serve

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


class HuggingFace(Engine):
    packages = ("transformers", "torch")

    def __init__(self, request: Dict[str, Any]) -> None:
        torch.set_num_threads(request["threads"])
        torch.set_grad_enabled(False)
        dtype = DTYPES[request["options"]["dtype"]]
        self.model = AutoModelForCausalLM.from_pretrained(request["model"], dtype=dtype).eval()

    def reset(self) -> None:
        self.cache = DynamicCache(config=self.model.config)

    def first(self, ids: List[int]) -> int:
        return self._step(ids)

    def next(self, token: int) -> int:
        return self._step([token])

    def _step(self, ids: List[int]) -> int:
        out = self.model(
            torch.tensor([ids]), past_key_values=self.cache, use_cache=True, logits_to_keep=1
        )
        return int(out.logits[0, -1].argmax())

    def logits(self, ids: List[int]) -> np.ndarray:
        return self.model(torch.tensor([ids]), use_cache=False).logits[0].float().numpy()


if __name__ == "__main__":
    serve(HuggingFace)
