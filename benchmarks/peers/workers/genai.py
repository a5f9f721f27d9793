"""onnxruntime-genai: the graph of its own builder, driven by its own generator."""

import json
from pathlib import Path
from typing import Any, Dict, List

import numpy as np
import onnxruntime_genai as og

from benchmarks.peers.workers.loop import Engine, serve


class Genai(Engine):
    packages = ("onnxruntime-genai", "onnxruntime")

    def __init__(self, request: Dict[str, Any]) -> None:
        config = og.Config(request["model"])
        threads = {"intra_op_num_threads": request["threads"]}
        # It wants an end token, in the vocabulary: the last one, which no text of ours has.
        known = json.loads((Path(request["model"]) / "genai_config.json").read_text("utf-8"))
        end = known["model"]["vocab_size"] - 1
        overlay = {"decoder": {"session_options": threads}, "eos_token_id": [end]}
        config.overlay(json.dumps({"model": overlay}))
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
        if self.generator.is_done():
            raise SystemExit("the generator ends before the last token that was asked for")
        self.generator.generate_next_token()
        return self.generator.get_next_tokens()[0]

    def logits(self, ids: List[int]) -> np.ndarray:
        self.reset()
        self.generator.append_tokens(np.array([ids], np.int32))
        return np.array(self.generator.get_output("logits"))[0].astype(np.float32)


if __name__ == "__main__":
    serve(Genai)
