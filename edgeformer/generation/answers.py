"""Several answers of one prompt: draws that share its rows, and the likeliest ones."""

from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Container,
    Dict,
    Iterator,
    List,
    Optional,
    Sequence,
)

from edgeformer.asked import integer
from edgeformer.backends import Backend, Output
from edgeformer.errors import EdgeformerError
from edgeformer.generation.beam import Rules, search
from edgeformer.generation.cache import Reuse
from edgeformer.generation.params import SamplingParams
from edgeformer.generation.sampling import new_seed
from edgeformer.generation.steps import Beam
from edgeformer.generation.stream import Stream
from edgeformer.text import TextStream
from edgeformer.text.words import with_ids

if TYPE_CHECKING:
    from edgeformer.model import Model

MOST_ANSWERS = 10000


class SharedPrompt:
    """The rows of a prompt as the first of several streams left them, and what the model said
    behind the last one: the others begin there with the very bits that the first one had."""

    def __init__(self) -> None:
        self.owner: Optional[object] = None  # of the cache: the last of the streams
        self.output: Optional[Output] = None


class Share(Reuse):
    """One stream's part in a SharedPrompt."""

    def __init__(self, prompt: SharedPrompt, mode: Any) -> None:
        super().__init__(mode)
        self._prompt = prompt

    def whole(self, backend: Backend, prompt: int, before: Optional[object]) -> Optional[Output]:
        shared = self._prompt
        if shared.output is None or before is not shared.owner:
            return None
        backend.truncate(prompt)
        self.rows = prompt
        return shared.output

    def computed(self, owner: object, output: Output) -> None:
        self._prompt.owner, self._prompt.output = owner, output


def streams(
    model: "Model", n: int, prompt: Any, params: Optional[SamplingParams], asked: Dict[str, Any]
) -> Iterator[Stream]:
    """n streams of one prompt. Where the next one begins, the one before is closed."""
    named = {name: asked.pop(name) for name in SamplingParams._fields if name in asked}
    chosen = (model.defaults if params is None else params).changed(
        with_ids(named, model.tokenizer)
    )
    n = integer("n", n, 1, MOST_ANSWERS)
    if n > 1 and chosen.temperature == 0.0:
        raise EdgeformerError(
            f"at temperature 0 all {n} answers are the same; set a temperature, or ask for beams"
        )
    seed = new_seed() if chosen.seed is None and n > 1 else chosen.seed
    shared, mode = SharedPrompt(), asked.pop("reuse", "exact")

    def start(index: int) -> Stream:
        seeded = None if seed is None else (seed + index) % 2**64
        reuse = Share(shared, mode)
        return model.stream(prompt, chosen._replace(seed=seeded), reuse=reuse, **asked)

    return _in_turn(start, n, start(0))  # what cannot be asked is refused here


def _in_turn(start: Callable[[int], Stream], n: int, stream: Stream) -> Iterator[Stream]:
    yield stream
    for index in range(1, n):
        stream.close()
        stream = start(index)
        yield stream


def beams(
    model: "Model",
    prompt_ids: List[int],
    rules: Rules,
    n: int,
    params: SamplingParams,
    new_text: Callable[[], Optional[TextStream]],
    show_special: bool,
) -> List[Beam]:
    """The n best answers of a beam search, the best first."""
    rules = rules.checked()
    n = integer("n", n, 1, rules.beams, ", the beams")
    params.refuse_for_beams()
    manifest = model.bundle.manifest
    params.check_vocabulary(manifest.model["vocab_size"])
    ends = frozenset(manifest.eos_token_ids)
    sizes = manifest.capacity, manifest.chunk
    found = search(model.backend, prompt_ids, rules, params, ends, *sizes)
    hidden: Container[int] = () if show_special else ends
    return [
        Beam(
            _text(each.tokens, new_text(), hidden),
            each.tokens,
            each.finish_reason,
            each.score,
            each.logprob,
        )
        for each in found[:n]
    ]


def _text(tokens: Sequence[int], text: Optional[TextStream], hidden: Container[int]) -> str:
    if text is None:
        return ""
    return "".join(text.push(token) for token in tokens if token not in hidden) + text.flush()
