"""llama.cpp through llama-cpp-python's binding of its C functions, with its own greedy sampler.

The binding's own `generate` costs more a token.
"""

from typing import Any, Dict, List

import llama_cpp
import numpy as np

from benchmarks.peers.workers.loop import Engine, serve

BATCH = 512


class Llama(Engine):
    packages = ("llama-cpp-python",)

    def __init__(self, request: Dict[str, Any]) -> None:
        cache = getattr(llama_cpp, "GGML_TYPE_" + request["options"]["cache"].upper())
        self.model = llama_cpp.Llama(
            request["model"],
            n_ctx=request["capacity"],
            n_batch=BATCH,
            n_ubatch=BATCH,
            n_threads=request["threads"],
            n_threads_batch=request["threads"],
            type_k=cache,
            type_v=cache,
            flash_attn=request["options"]["flash_attention"],
            logits_all=request["what"] != "time",
            verbose=False,
        )
        self.context = self.model.ctx
        self.sampler = llama_cpp.llama_sampler_init_greedy()

    def reset(self) -> None:
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self.context), False)

    def first(self, ids: List[int]) -> int:
        return self._step(ids)

    def next(self, token: int) -> int:
        return self._step([token])

    def _step(self, ids: List[int]) -> int:
        for start in range(0, len(ids), BATCH):
            part = ids[start : start + BATCH]
            array = (llama_cpp.llama_token * len(part))(*part)
            batch = llama_cpp.llama_batch_get_one(array, len(part))
            if llama_cpp.llama_decode(self.context, batch):
                raise SystemExit(f"llama_decode refuses {len(part)} tokens")
        return llama_cpp.llama_sampler_sample(self.sampler, self.context, -1)

    def logits(self, ids: List[int]) -> np.ndarray:
        self.model.reset()
        self.model.eval(list(ids))
        return np.array(self.model.scores[: len(ids)], np.float32)


if __name__ == "__main__":
    serve(Llama)
