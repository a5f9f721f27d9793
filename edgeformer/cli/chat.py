"""`chat`: questions and answers that go on, at a terminal or through a pipe."""

import argparse
from typing import TYPE_CHECKING, Any, Callable, Dict, Optional

from edgeformer.bundle import Bundle
from edgeformer.cli import console, fitting, huge_pages, prefix, sampling
from edgeformer.cli.turns import Turns
from edgeformer.errors import EdgeformerError

if TYPE_CHECKING:
    from edgeformer.generation.conversation import Conversation
    from edgeformer.generation.steps import Stats
    from edgeformer.model import Model

HELP = """\
/system TEXT   what the model is told beforehand; without TEXT: what that is
/undo [N]      take back the last turn, or the last N; /rewind is the same
/reset         forget all but the system message
/save FILE     write the conversation as JSON
/load FILE     go on with a saved one
/stats         what the last answer cost, and how much of its prompt was reused
/exit          end, as Ctrl-D does
A line that ends with \\ goes on in the next one; a block stands between two \"\"\".
A message that begins with / is typed with //. Ctrl-C stops an answer."""

EPILOG = (
    "Each line is a turn; /help in the chat tells the commands. Ctrl-C stops an answer, Ctrl-D "
    "ends. Where the context is full, the oldest turns are left out of what the model reads."
)


def parser() -> argparse.ArgumentParser:
    made = console.parser("chat", "Chat with a bundle: answers on stdout, all else on stderr.")
    made.epilog = EPILOG
    add = made.add_argument
    add("--system", metavar="TEXT", help="what the model is told beforehand")
    add("--load", metavar="FILE", help="go on with a conversation that /save wrote")
    prefix.add_option(made)
    sampling.add_options(made)
    fitting.add_options(made)
    console.add_draft(made)
    console.add_backend_options(made)
    console.add_huge_pages(made)
    return made


def run(arguments: argparse.Namespace) -> int:
    if arguments.huge_pages:
        huge_pages.start_again(arguments.words)
    chosen = dict(sampling.asked(arguments), **fitting.asked(arguments))
    manifest = Bundle.open(arguments.bundle).manifest
    if not manifest.chat_templates:
        raise EdgeformerError(
            f"bundle {manifest.name} has no chat template, so its model was not made for chats; "
            f"continue a text: python -m edgeformer generate {arguments.bundle} TEXT"
        )
    if arguments.prefix is not None and arguments.load is not None:
        raise EdgeformerError("--prefix begins a conversation, --load goes on with one; give one")
    turns = Turns()

    import edgeformer

    options = arguments.backend, arguments.threads, arguments.cuda_graph
    with edgeformer.load(arguments.bundle, *options, **console.draft(arguments)) as model:
        _refuse_rounding(model, arguments.draft, chosen)
        conversation = model.chat()
        if arguments.prefix is not None:
            told = [] if arguments.system is None else [{"role": "system"}]
            asked = prefix.put_before(model, arguments.prefix, {"messages": told})
            conversation = model.chat(messages=asked["messages"])
        if arguments.load is not None:
            conversation.load(arguments.load)
        if arguments.system is not None:
            conversation.system = console.argument_text(arguments.system, "--system")
        console.say(f"backend: {model.backend_reason}")
        if turns.terminal:
            console.say("/help tells the commands; Ctrl-C stops an answer, Ctrl-D ends")
        return Chat(model, conversation, turns, chosen).run()


class Chat:
    """A conversation with somebody who types."""

    def __init__(
        self, model: "Model", conversation: "Conversation", turns: Turns, chosen: Dict[str, Any]
    ) -> None:
        self._model = model
        self._conversation = conversation
        self._turns = turns
        self._chosen = chosen
        self._out = console.TextOut()
        self._stats: "Optional[Stats]" = None  # of the last answer
        self._commands: Dict[str, Callable[[str], None]] = {
            "system": self._system,
            "undo": self._undo,
            "rewind": self._undo,
            "reset": self._reset,
            "save": self._save,
            "load": self._load,
            "stats": self._tell_stats,
            "help": lambda _: console.say(HELP),
        }

    def run(self) -> int:
        """Turns until there are no more. At a terminal an error or Ctrl-C ends only its turn."""
        while True:
            try:
                return self._run()
            except KeyboardInterrupt:  # in the instant in which another one was dealt with
                if not self._turns.terminal:
                    return 130

    def _run(self) -> int:
        while True:
            try:
                text = self._turns.read()
                if text is None or text.strip() in ("/exit", "/quit"):
                    if self._turns.terminal and text is None:
                        console.say("")  # Ctrl-D leaves the cursor behind the mark
                    return 0
                self._turn(text)
            except KeyboardInterrupt:
                if not self._turns.terminal:
                    return 130
                console.say("")
            except EdgeformerError as error:
                if not self._turns.terminal:
                    raise
                console.say(f"error: {error}")

    def _turn(self, text: str) -> None:
        if not text.strip():
            return
        if not text.startswith("/"):
            self._answer(text)
        elif text.startswith("//"):
            self._answer(text[1:])
        else:
            name, _, rest = text[1:].partition(" ")
            if name.strip() not in self._commands:
                raise EdgeformerError(
                    f"no command is called /{name[:60]}; /help tells them, and // begins a message "
                    "with /"
                )
            self._commands[name.strip()](rest.strip())

    def _answer(self, text: str) -> None:
        conversation, before = self._conversation, self._conversation.left_out
        answer = conversation.send(text, **self._chosen)
        if conversation.left_out > before:
            console.say(
                f"the context is full ({self._capacity} rows): the first {conversation.left_out} "
                "messages are left out of what the model reads"
            )
        interrupted = False
        try:
            for step in answer:
                self._out.write(step.text)
        except KeyboardInterrupt:
            interrupted = True
        finally:
            answer.close()
            self._out.write("\n")
        self._stats = answer.stats
        self._tell_end(answer.finish_reason)
        if interrupted and not self._turns.terminal:
            raise KeyboardInterrupt

    def _tell_end(self, reason: Optional[str]) -> None:
        if not self._turns.terminal:
            console.say(f"{reason}: {self._stats}")
        elif reason == "capacity":
            console.say(
                f"the answer ends here: all {self._capacity} rows are full; the oldest turns will "
                "be left out of the next one, /reset forgets all"
            )
        elif reason != "stop":
            console.say(f"({reason})")

    @property
    def _capacity(self) -> int:
        return self._model.bundle.manifest.capacity

    def _system(self, text: str) -> None:
        if text:
            self._conversation.system = text
        console.say(f"system: {self._conversation.system or '(none)'}")

    def _undo(self, count: str) -> None:
        if count and not (count.isdigit() and len(count) < 10):
            raise EdgeformerError(f"/undo takes a number of turns, not {count[:60]!r}")
        taken = self._conversation.rewind(int(count or 1))
        console.say(f"taken back: {taken[0]['content'][:60]!r}")

    def _reset(self, _: str) -> None:
        self._conversation.reset()
        console.say("all but the system message is forgotten")

    def _save(self, path: str) -> None:
        self._conversation.save(_named(path, "/save"))
        console.say(f"{len(self._conversation.messages)} messages are in {path}")

    def _load(self, path: str) -> None:
        self._conversation.load(_named(path, "/load"))
        console.say(f"{len(self._conversation.messages)} messages are from {path}")

    def _tell_stats(self, _: str) -> None:
        console.say("no answer yet" if self._stats is None else str(self._stats))


def _refuse_rounding(model: "Model", draft: Optional[str], chosen: Dict[str, Any]) -> None:
    """Before the first turn, what else every turn would be refused for."""
    temperature = chosen.get("temperature", model.defaults.temperature)
    if draft not in (None, "off") and not temperature:
        from edgeformer.generation.drafting.verify import refuse_rounding

        refuse_rounding(model.backend)


def _named(path: str, command: str) -> str:
    if not path:
        raise EdgeformerError(f"{command} takes the name of a file")
    return path
