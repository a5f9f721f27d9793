"""Decoding in blocks, while other processes wait for theirs: the child's side of `side_by_side`."""

from typing import Any, Callable, Dict, List, Optional, Tuple

from edgeformer.bench.statistics import median
from edgeformer.errors import EdgeformerError

Tell = Callable[[Dict[str, Any]], None]
Ordered = Callable[[], Dict[str, Any]]


def decode_in_blocks(decoding: "Decoding", tell: Tell, ordered: Ordered) -> Dict[str, List[float]]:
    """Blocks of {"tokens": n, "dropped": m} until {"tokens": 0}: the times of the tokens that are
    kept. Before each it tells {"waits": median seconds of the last block's tokens}."""
    kept: Dict[str, List[float]] = {"token_s": [], "outside_s": []}
    last: Optional[float] = None
    while True:
        tell({"waits": last})
        order = ordered()
        if not order["tokens"]:
            return kept
        whole, outside = decoding.block(order["tokens"])
        last = median(whole)
        kept["token_s"] += whole[order["dropped"] :]
        kept["outside_s"] += outside[order["dropped"] :]


class Decoding:
    """Streams of so many tokens, one after the other, in pieces."""

    def __init__(self, begun: Callable[[], Any], tokens: int, step_s: List[float]) -> None:
        """`begun`: a new stream of so many tokens. `step_s`: grows by the seconds of each step of
        the backend."""
        self._begun, self._tokens, self._step_s = begun, tokens, step_s
        self._stream: Any = None
        self._left = 0

    def block(self, tokens: int) -> Tuple[List[float], List[float]]:
        """(seconds of each token, those outside its step). First tokens are not among them."""
        whole: List[float] = []
        inside: List[float] = []
        while len(whole) < tokens:
            if not self._left:
                self._stream = self._begun()
                next(self._stream)
                self._left = self._tokens - 1
            del self._step_s[:]
            part = min(self._left, tokens - len(whole))
            for _ in range(part):
                if next(self._stream, None) is None:
                    came, why = self._stream.stats.new_tokens, self._stream.finish_reason
                    raise EdgeformerError(
                        f"{self._tokens} tokens were asked for and {came} came ({why}); give fewer "
                        "with --new-tokens"
                    )
            self._left -= part
            whole += self._stream.stats.token_s[-part:]
            inside += self._step_s  # one step a token
        return whole, [max(0.0, w - i) for w, i in zip(whole, inside)]
