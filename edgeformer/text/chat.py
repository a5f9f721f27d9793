"""Chat templates: from messages to the prompt that a model was trained on.

Texts equal those of `transformers`, byte for byte. jinja2 only parses the template; what it says
is carried out by edgeformer.text.template, which bounds it and knows who wrote which character.
"""

import collections.abc
import datetime
import re
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Optional, Tuple, Union

from jinja2 import Environment, TemplateSyntaxError, nodes
from jinja2.ext import Extension
from jinja2.lexer import Lexer

from edgeformer.errors import EdgeformerError
from edgeformer.text.template.inputs import chat_messages, dicts, plain
from edgeformer.text.template.limits import Budget, Raised, Refused, whole_number
from edgeformer.text.template.statements import Render
from edgeformer.text.template.traced import mask_of, trusted

MOST_SOURCE = 100000  # characters of a template; jinja2 needs two seconds for the worst of these


class _Generation(Extension):
    """{% generation %} marks the assistant's words for training; here it only is a block."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Any) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body, lineno=line)


class _Grammar(Environment):
    """The grammar of chat templates, the same with every jinja2."""

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=["jinja2.ext.loopcontrols", _Generation],
        )
        self._lexer = Lexer(self)
        # jinja2 3.0 takes only spaces and tabs for the white space before a block.
        if hasattr(self._lexer, "lstrip_unless_re"):
            self._lexer.lstrip_unless_re = re.compile(r"\S")

    @property
    def lexer(self) -> Lexer:
        return self._lexer


_GRAMMAR = _Grammar()


class Prompt(NamedTuple):
    """A rendered prompt, and where in it the template's own control tokens stand.

    A control token that is not in `controls` was typed by a user, in a message, a tool or a
    document, and has to be encoded as ordinary text.
    """

    text: str
    controls: Tuple[Tuple[int, int], ...]  # (start, stop), in order

    def segments(self) -> List[Tuple[str, bool]]:
        """The text in parts: (a control token, True) or (ordinary text, False), none empty.

        Encode the first with allow_special=True and the second with allow_special=False. Control
        tokens cut a text for every tokenizer, so the ids are those of the whole text; but a token
        that takes the white space beside it (lstrip, rstrip) does so only in the whole text, for
        which there is `controls`.
        """
        parts = []
        done = 0
        for start, stop in self.controls + ((len(self.text), len(self.text)),):
            parts.append((self.text[done:start], False))
            parts.append((self.text[start:stop], True))
            done = stop
        return [part for part in parts if part[0]]


class ChatTemplate:
    """One template, parsed and checked. special_tokens are the names it knows, as bos_token."""

    def __init__(
        self,
        source: str,
        name: str = "default",
        special_tokens: Optional[Dict[str, Optional[str]]] = None,
    ) -> None:
        self.name = name
        self.source = source
        self._tokens = {
            key: trusted(token)
            for key, token in (special_tokens or {}).items()
            if token is not None
        }
        self._tree = self._parsed()

    def render(
        self,
        messages: List[Dict[str, Any]],
        add_generation_prompt: bool = True,
        tools: Optional[List[dict]] = None,
        documents: Optional[List[dict]] = None,
        now: Optional[datetime.datetime] = None,
        **extra: Any,
    ) -> str:
        """The prompt of these messages. now: what strftime_now reads instead of the clock.

        extra are further names that the template knows, as enable_thinking.
        """
        inputs = dict(extra, add_generation_prompt=add_generation_prompt)
        return str.__str__(self._traced(messages, tools, documents, now, inputs))

    def render_prompt(
        self,
        messages: List[Dict[str, Any]],
        control_tokens: Iterable[str],
        add_generation_prompt: bool = True,
        tools: Optional[List[dict]] = None,
        documents: Optional[List[dict]] = None,
        now: Optional[datetime.datetime] = None,
        **extra: Any,
    ) -> Prompt:
        """render, and where the control_tokens stand that the template itself wrote."""
        inputs = dict(extra, add_generation_prompt=add_generation_prompt)
        text = self._traced(messages, tools, documents, now, inputs)
        return Prompt(str.__str__(text), tuple(_controls(text, control_tokens)))

    def render_segments(
        self, messages: List[Dict[str, Any]], control_tokens: Iterable[str], **options: Any
    ) -> List[Tuple[str, bool]]:
        """render_prompt(...).segments()"""
        return self.render_prompt(messages, control_tokens, **options).segments()

    def _traced(
        self, messages: Any, tools: Any, documents: Any, now: Any, inputs: Dict[str, Any]
    ) -> str:
        budget = Budget()
        try:
            variables: Dict[str, Any] = dict(self._tokens)
            variables.update(plain(budget, inputs, "the arguments"))
            variables["messages"] = chat_messages(budget, messages)
            variables["tools"] = dicts(budget, tools, "tools")
            variables["documents"] = dicts(budget, documents, "documents")
        except Refused as refusal:
            raise EdgeformerError("cannot render the chat: %s" % refusal) from None
        render = Render(budget, variables, now)
        try:
            return render.run(self._tree)
        except Raised as refusal:
            raise EdgeformerError(
                "chat template %r does not take these messages: %s" % (self.name, refusal)
            ) from None
        except Refused as refusal:
            raise self._error(render.line, str(refusal)) from None
        except RecursionError:
            raise self._error(render.line, "it nests or calls itself too deeply") from None
        except (TypeError, ValueError, LookupError, ArithmeticError) as error:
            raise self._error(render.line, "%s: %s" % (type(error).__name__, error)) from error

    def _parsed(self) -> nodes.Template:
        if not isinstance(self.source, str) or len(self.source) > MOST_SOURCE:
            raise EdgeformerError(
                "chat template %r is not a text of at most %d characters" % (self.name, MOST_SOURCE)
            )
        try:
            tree = _GRAMMAR.parse(self.source)
        except TemplateSyntaxError as error:
            raise self._error(error.lineno, str(error.message)) from None
        except RecursionError:
            raise self._error(1, "it is nested too deeply") from None
        except ValueError as error:  # a number of thousands of digits
            raise self._error(1, str(error)) from None
        self._check(tree)
        return tree

    def _check(self, tree: nodes.Template) -> None:
        """Mark what the template wrote as its own, and refuse numbers that cost something."""
        waiting: List[nodes.Node] = [tree]
        while waiting:
            node = waiting.pop()
            if isinstance(node, nodes.TemplateData):
                node.data = trusted(node.data)
            elif isinstance(node, nodes.Const) and isinstance(node.value, str):
                node.value = trusted(node.value)
            elif isinstance(node, nodes.Const) and isinstance(node.value, int):
                try:
                    whole_number(node.value)
                except Refused as refusal:
                    raise self._error(node.lineno, str(refusal)) from None
            waiting.extend(node.iter_child_nodes())

    def _error(self, line: int, fact: str) -> EdgeformerError:
        return EdgeformerError(
            "chat template %r, line %d: %s; export the bundle with another chat template, or "
            "give the prompt as text" % (self.name, line, fact[:280])
        )


class ChatTemplates(collections.abc.Mapping):
    """The templates of a checkpoint by name.

    source: one template, {name: template}, or [{"name": ..., "template": ...}].
    """

    def __init__(
        self,
        source: Union[str, Dict[str, str], List[Dict[str, str]]],
        special_tokens: Optional[Dict[str, Optional[str]]] = None,
    ) -> None:
        if isinstance(source, str):
            source = {"default": source}
        elif isinstance(source, (list, tuple)):
            try:
                source = {entry["name"]: entry["template"] for entry in source}
            except (TypeError, KeyError):
                raise EdgeformerError(
                    'chat templates in a list must be {"name": ..., "template": ...}'
                ) from None
        if not isinstance(source, dict) or not source:
            raise EdgeformerError("the checkpoint has no chat template; give the prompt as text")
        self._templates = {
            name: ChatTemplate(text, name, special_tokens) for name, text in source.items()
        }

    def __getitem__(self, name: str) -> ChatTemplate:
        return self._templates[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._templates)

    def __len__(self) -> int:
        return len(self._templates)

    def choose(self, name: Optional[str] = None, tools: Any = None) -> ChatTemplate:
        """The template of this name; without one, tool_use where there are tools, else default."""
        if name is None:
            name = "tool_use" if tools is not None and "tool_use" in self else "default"
        if name not in self:
            raise EdgeformerError(
                "there is no chat template %r; choose one of: %s" % (name, ", ".join(sorted(self)))
            )
        return self[name]


def _controls(text: str, control_tokens: Iterable[str]) -> Iterator[Tuple[int, int]]:
    """Where the tokens stand in what the template wrote; of several at a place, the longest."""
    tokens = sorted((token for token in control_tokens if token), key=len, reverse=True)
    if not tokens:
        return
    any_of = re.compile("|".join(re.escape(token) for token in tokens))
    for own in re.finditer(b"\1+", mask_of(text)):
        for match in any_of.finditer(str.__str__(text), own.start(), own.end()):
            yield match.span()
