"""A loaded bundle: text or ids in, a stream out. Needs no numpy until a bundle is loaded."""

from time import perf_counter
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Optional, Sequence, Tuple, Union

from edgeformer.asked import whole
from edgeformer.errors import EdgeformerError
from edgeformer.generation.drafting.open import Drafts
from edgeformer.generation.params import SamplingParams
from edgeformer.generation.steps import Beam, Generation

if TYPE_CHECKING:
    from edgeformer.backends import Backend
    from edgeformer.bundle import Bundle
    from edgeformer.generation.constraint import Constraints
    from edgeformer.generation.conversation import Conversation
    from edgeformer.generation.prefix import Prefix
    from edgeformer.generation.processor import Constraint
    from edgeformer.generation.scoring import Score
    from edgeformer.generation.stream import Stream
    from edgeformer.text import TextStream, Tokenizer
    from edgeformer.text.chat import ChatTemplates

Messages = Sequence[Dict[str, Any]]
Prompt = Union[str, Sequence[int]]


def load(
    path: str,
    backend: str = "auto",
    threads: Optional[int] = None,
    cuda_graph: Optional[bool] = None,
    engines: Optional[str] = None,
    draft: Any = "off",
) -> "Model":
    """Open a bundle and load its graph. `backend`: "auto", "ort" or "trt".

    `threads`: CPU threads of a step; None means one for each fast core. `cuda_graph`: whether
    TensorRT's steps of one token are recorded once and replayed, as they are if it is None.
    `engines`: the key of a set that `build` made; None: the newest. `draft`: what streams draft
    with that do not say it: "off", "lookup", a file that `drafter` wrote, or a smaller bundle.
    """
    from edgeformer.backends import open_backend
    from edgeformer.bundle import Bundle
    from edgeformer.release import release_heap
    from edgeformer.text import open_tokenizer

    started = perf_counter()
    bundle = Bundle.open(path)
    tokenizer = None
    if bundle.manifest.tokenizer is not None:
        tokenizer = open_tokenizer(bundle)
        release_heap()  # while only the tokenizer has made holes, and not among the weights
    opened = open_backend(bundle, backend, threads, cuda_graph, engines)
    return Model(bundle, opened, tokenizer, perf_counter() - started, draft)


class Model:
    """One bundle on one backend. It has one cache: one stream at a time, in one thread."""

    def __init__(
        self,
        bundle: "Bundle",
        backend: "Backend",
        tokenizer: "Optional[Tokenizer]",
        load_s: float = 0.0,
        draft: Any = "off",
    ) -> None:
        self.bundle = bundle
        self.backend = backend
        self.tokenizer = tokenizer  # None: token ids only
        self.load_s = load_s
        self._templates: "Optional[ChatTemplates]" = None  # read when a chat begins
        self._constraints: "Optional[Constraints]" = None  # the first of them takes a while
        self.drafts = Drafts(self, draft)
        self._eos_ids = frozenset(bundle.manifest.eos_token_ids)

    @property
    def backend_reason(self) -> str:
        """Which backend runs the model, and why that one."""
        return self.backend.reason

    @property
    def defaults(self) -> SamplingParams:
        """The sampling of a stream that asks for nothing else: what the bundle says."""
        return SamplingParams(**self.bundle.manifest.sampling._asdict())

    def stream(
        self,
        prompt: Optional[Prompt] = None,
        params: Optional[SamplingParams] = None,
        *,
        messages: Optional[Messages] = None,
        regex: Optional[str] = None,
        json_schema: Any = None,
        reuse: Union[bool, str] = "exact",
        after_text: Optional[bool] = None,
        show_special: bool = False,
        draft: Any = None,
        **sampling: Any,
    ) -> "Stream":
        """Start an answer: an iterator of `Step`, the last one with finish reason and stats.

        Either a prompt, or the messages of a chat: [{"role": "user", "content": "..."}]. The whole
        answer matches `regex`, or is JSON by `json_schema` (a dict, or JSON text), if one is given.
        Further keywords are fields of SamplingParams; they change `params`, or the bundle's
        defaults. Here `banned_tokens` may have texts among its ids, `forced_tokens` may be one.
        `reuse`: which rows it may take that the last stream left: "exact", those with the very bits
        that it would compute; "all" (True), also those that differ in rounding; "none" (False).
        `show_special`: control tokens are part of the text, the end token too.
        `after_text`: whether the answer keeps a space at its start; None: it does unless it answers
        messages.
        `draft`: what guesses tokens that are then scored in one step, as in `load`; the tokens are
        the same. None: what `load` was given.
        """
        from edgeformer.generation.cache import Reuse
        from edgeformer.generation.overflow import overflow_for
        from edgeformer.generation.stream import Stream
        from edgeformer.text.words import with_ids

        asked = with_ids(sampling, self.tokenizer)
        chosen = (self.defaults if params is None else params).changed(asked)
        chosen.check_vocabulary(self.bundle.manifest.model["vocab_size"])
        ids, goes_on = self._asked_ids(prompt, messages)
        goes_on = goes_on if after_text is None else after_text
        manifest = self.bundle.manifest
        text = None if self.tokenizer is None else self.tokenizer.stream(show_special, goes_on)
        drafter = self.drafts.start(draft)
        return Stream(
            self.backend,
            ids,
            chosen,
            self._eos_ids,
            manifest.capacity,
            manifest.chunk,
            text,
            self.load_s,
            self._constraint(regex, json_schema, goes_on),
            reuse=reuse if isinstance(reuse, Reuse) else Reuse(reuse),
            show_special=show_special,
            drafter=drafter,
            overflow=overflow_for(chosen, manifest, self.backend, drafter is not None),
        )

    def generate(
        self, prompt: Optional[Prompt] = None, params: Optional[SamplingParams] = None, **asked: Any
    ) -> Generation:
        """A whole answer at once: the steps of `stream`, joined. Keywords are those of `stream`."""
        stream = self.stream(prompt, params, **asked)
        steps = list(stream)  # none where the deadline came before the first token
        return Generation.joined(steps, stream.finish_reason, stream.stats)

    def answers(
        self,
        prompt: Optional[Prompt] = None,
        params: Optional[SamplingParams] = None,
        *,
        n: int,
        **asked: Any,
    ) -> List[Generation]:
        """n drawn answers of one prompt, which is computed once. Other keywords as in `stream`.

        Their seeds are the asked (or a new) one and those that follow it; each stands in its
        stats, and by it alone the answer comes again.
        """
        found = []
        for stream in self.streams(prompt, params, n=n, **asked):
            steps = list(stream)
            found.append(Generation.joined(steps, stream.finish_reason, stream.stats))
        return found

    def streams(
        self,
        prompt: Optional[Prompt] = None,
        params: Optional[SamplingParams] = None,
        *,
        n: int,
        **asked: Any,
    ) -> "Iterator[Stream]":
        """`answers` as they come: n streams, each closed where the next one begins."""
        from edgeformer.generation.answers import streams

        return streams(self, n, prompt, params, asked)

    def beams(
        self,
        prompt: Optional[Prompt] = None,
        params: Optional[SamplingParams] = None,
        *,
        beams: int = 4,
        n: int = 1,
        length_penalty: float = 1.0,
        early_stopping: Union[bool, str] = False,
        messages: Optional[Messages] = None,
        show_special: bool = False,
        **sampling: Any,
    ) -> List[Beam]:
        """The n best answers of a search with so many beams, the best first: `transformers`' rules.

        An answer's score is its log-probability divided by its length to the power of
        `length_penalty`. `early_stopping`: True ends with as many finished answers as beams, False
        where the best beam, as long as it is, would not outdo the worst of them, "never" where it
        would not at any length. Rules that change logits and limits are taken of SamplingParams.
        """
        from edgeformer.generation import answers
        from edgeformer.generation.beam import Rules
        from edgeformer.text.words import with_ids

        asked = with_ids(sampling, self.tokenizer)
        chosen = (SamplingParams() if params is None else params).changed(asked)
        ids, goes_on = self._asked_ids(prompt, messages)

        def new_text() -> "Optional[TextStream]":
            tokenizer = self.tokenizer
            return None if tokenizer is None else tokenizer.stream(show_special, goes_on)

        rules = Rules(beams, length_penalty, early_stopping)
        return answers.beams(self, ids, rules, n, chosen, new_text, show_special)

    def score(
        self, text: Prompt, *, after: Optional[Prompt] = None, overlap: Optional[int] = None
    ) -> "Score":
        """How likely the model finds a text: the log-probability of each of its tokens.

        after: what comes before the text and is only read; "" scores the first token too, after the
        begin or end token. A token over the border of two texts counts to the second.
        overlap: a text that is longer than the cache is scored in windows, each token after at
        least so many others; None: such a text is an error.
        """
        from edgeformer.generation.scoring import score_ids, scored_ids

        ids, given = scored_ids(self.prompt_ids, text, after)
        manifest = self.bundle.manifest
        sizes = manifest.capacity, manifest.chunk, manifest.model["vocab_size"]
        return score_ids(self.backend, ids, given, *sizes, overlap)

    def chat(
        self,
        system: Optional[str] = None,
        messages: Messages = (),
        reuse: Union[bool, str] = "all",
        **template: Any,
    ) -> "Conversation":
        """A conversation: `send` asks the next turn, which computes only what is new of it.

        `system` is told the model beforehand; `messages` were said already. Further keywords are
        those of `chat_ids`. By default a turn takes all rows of the one before; other values of
        `reuse` as in `stream`.
        """
        from edgeformer.generation.cache import Reuse
        from edgeformer.generation.conversation import Conversation

        self._opened_templates()
        return Conversation(self, system, messages, Reuse(reuse).mode, **template)

    def chat_ids(
        self,
        messages: Messages,
        template: Optional[str] = None,
        tools: Optional[List[dict]] = None,
        **extra: Any,
    ) -> List[int]:
        """The ids of a chat, as the bundle's template writes it, up to where the answer begins.

        A begin token stands there only where the template writes one. Control tokens typed into a
        message are ordinary text. `template` is a name, where there are several; `extra` are
        further names that the template knows, as enable_thinking.
        """
        from edgeformer.text.chat_prompt import chat_ids

        templates = self._opened_templates()
        return chat_ids(self.tokenizer, templates, list(messages), template, tools, **extra)

    def prompt_ids(self, prompt: Prompt) -> List[int]:
        """The ids that a prompt puts into the cache.

        Text gets the tokenizer's begin token in front, if there is one. An empty text starts from
        the begin token, or else from the first end token, which stands before a text in training.
        """
        from edgeformer.text.prompt import prompt_ids

        return prompt_ids(self.bundle.manifest, self.tokenizer, prompt)

    @property
    def cached_ids(self) -> List[int]:
        """The tokens whose rows stand in the cache, up to one that is not known."""
        return [row[0] for row in self.backend.held]

    def truncate(self, rows: int) -> None:
        """Forget all but the first `rows` cached rows: what a later prompt may reuse. A stream that
        is open ends with an error."""
        kept = whole(rows)
        if kept is None:
            raise EdgeformerError(f"rows is {rows!r}; it must be an integer")
        self.backend.owner = object()
        self.backend.truncate(kept)

    def save_prefix(
        self, path: str, prompt: Optional[Prompt] = None, *, messages: Optional[Messages] = None
    ) -> "Prefix":
        """Compute the rows of a prompt, or of what all chats with these messages in front begin
        with, and write them to a file. `load_prefix` takes it back for the same bundle."""
        from edgeformer.generation.prefix import Prefix, compute_rows, save_rows

        if (prompt is None) == (messages is None):
            raise EdgeformerError("give a prompt or messages, one of the two")
        if messages is None:
            prefix = Prefix(tuple(self.prompt_ids(prompt)), None)
        else:
            prefix = Prefix(tuple(self._chat_prefix(messages)), list(messages))
        manifest = self.bundle.manifest
        rows = compute_rows(self.backend, prefix.ids, manifest.capacity, manifest.chunk)
        save_rows(path, rows, prefix, self.bundle, self.backend)
        return prefix

    def load_prefix(self, path: str) -> "Prefix":
        """Put the rows of a file that `save_prefix` wrote into the cache; what they are.

        Streams whose prompt begins with these ids compute only the rest, until one begins
        otherwise. A file of another bundle, backend or precision, or a damaged one, is an error.
        """
        from edgeformer.generation.prefix import load_rows

        return load_rows(path, self.bundle, self.backend)

    def close(self) -> None:
        """Free the weights and the cache. A stream that is open ends with an error."""
        self.backend.close()
        self.drafts.close()

    def __enter__(self) -> "Model":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _asked_ids(
        self, prompt: Optional[Prompt], messages: Optional[Messages]
    ) -> Tuple[List[int], bool]:
        """The prompt, and whether its answer goes on with a text and keeps the space at its start;
        one that stands alone does not."""
        if (prompt is None) == (messages is None):
            raise EdgeformerError("give a prompt or messages, one of the two")
        if messages is not None:
            return self.chat_ids(messages), False
        return self.prompt_ids(prompt), not (isinstance(prompt, str) and prompt == "")

    def _constraint(
        self, regex: Optional[str], json_schema: Any, after_text: bool
    ) -> "Optional[Constraint]":
        from edgeformer.generation.constraint import Constraints, wanted

        asked = wanted(regex, json_schema)
        if asked is None:
            return None
        if self._constraints is None:
            rows = self.bundle.manifest.model["vocab_size"]
            self._constraints = Constraints(self.tokenizer, self._eos_ids, rows)
        return self._constraints.start(asked, after_text)

    def _chat_prefix(self, messages: Messages) -> List[int]:
        """What chats begin with whose next words nobody knows: all up to these."""
        chats = [[*messages, {"role": "user", "content": words}] for words in ("a", "1")]
        first, second = map(self.chat_ids, chats)
        both = enumerate(zip(first, second))
        return first[: next((i for i, (one, other) in both if one != other), len(first))]

    def _opened_templates(self) -> "ChatTemplates":
        from edgeformer.text.chat_prompt import open_templates

        if self._templates is None:
            self._templates = open_templates(self.bundle)
        return self._templates
