"""onnxruntime-genai: the graph of its own builder, driven by its own generator."""

import json
from typing import Any, Dict, List

import numpy as np
import onnxruntime_genai as og

from benchmarks.peers.workers.loop import Engine, serve


class Genai(Engine):
    packages = ("onnxruntime-genai", "onnxruntime")

    def __init__(self, request: Dict[str, Any]) -> None:
        config = og.Config(request["model"])
        threads = {"intra_op_num_threads": request["threads"]}
        overlay = {"model": {"decoder": {"session_options": threads}, "eos_token_id": []}}
        config.overlay(json.dumps(overlay))
        self.model = og.Model(config)
        self.length = request["capacity"]

    def reset(self) -> None:
        params = og.GeneratorParams(self.model)
        # One buffer for past and present, as long as the longest text: its fastest way.
        params.set_search_options(
            do_sample=False, max_length=self.length, past_present_share_buffer=True
        )
        self.generator = og.Generator(self.model, params)

    def first(self, ids: List[int]) -> int:
        self.generator.append_tokens(np.array([ids], np.int32))
        return self.next(0)

    def next(self, token: int) -> int:
        """The generator keeps its last token itself."""
        self.generator.generate_next_token()
        return self.generator.get_next_tokens()[0]

    def logits(self, ids: List[int]) -> np.ndarray:
        self.reset()
        rows = []
        for token in ids:  # it tells only those of the last token
            self.generator.append_tokens(np.array([[token]], np.int32))
            rows.append(np.array(self.generator.get_logits()).reshape(-1))
        return np.stack(rows)


if __name__ == "__main__":
    serve(Genai)
