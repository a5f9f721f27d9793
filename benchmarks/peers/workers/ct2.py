"""CTranslate2, driven by its own generation loop, which hands each token over as it comes."""

import json
from pathlib import Path
from typing import Any, Dict, List

import ctranslate2
import numpy as np

from benchmarks.peers.workers.loop import Engine, serve


class CTranslate2(Engine):
    packages = ("ctranslate2",)

    def __init__(self, request: Dict[str, Any]) -> None:
        folder = Path(request["model"])
        self.words = json.loads((folder / "vocabulary.json").read_text("utf-8"))
        self.generator = ctranslate2.Generator(
            str(folder),
            device="cpu",
            compute_type=request["options"]["compute"],
            inter_threads=1,
            intra_threads=request["threads"],
        )
        self.most = request["new_tokens"]
        self.stream = None  # type: Any

    def reset(self) -> None:
        if self.stream is not None:
            self.stream.close()  # waits for the step that it is in

    def first(self, ids: List[int]) -> int:
        self.stream = self.generator.generate_tokens(
            [self.words[i] for i in ids],
            end_token=[],  # none; a least length would forbid the end token, which changes the text
            max_length=self.most,
            sampling_topk=1,
        )
        return self.next(0)

    def next(self, token: int) -> int:
        """The generator keeps its last token itself."""
        return next(self.stream).token_id

    def logits(self, ids: List[int]) -> np.ndarray:
        return np.array(self.generator.forward_batch([list(ids)]))[0].astype(np.float32)


if __name__ == "__main__":
    serve(CTranslate2)
