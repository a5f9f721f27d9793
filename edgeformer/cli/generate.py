"""`generate`: a prompt in, text out as it comes."""

import argparse
from typing import TYPE_CHECKING, Any, Dict, Iterator, List

from edgeformer.cli import console, fitting, huge_pages, many, prefix, sampling
from edgeformer.errors import EdgeformerError
from edgeformer.generation.steps import Generation, Step

if TYPE_CHECKING:
    from edgeformer.generation.stream import Stream
    from edgeformer.model import Model


def parser() -> argparse.ArgumentParser:
    made = console.parser("generate", "Stream text from a bundle: text on stdout, stats on stderr.")
    add = made.add_argument
    add("prompt", metavar="PROMPT", help="the text to continue; - reads stdin, less its last break")
    add("--chat", action="store_true", help="answer PROMPT, in the chat template of the bundle")
    add("--system", metavar="TEXT", help="with --chat: what the model is told beforehand")
    prefix.add_option(made)
    sampling.add_options(made)
    fitting.add_options(made)
    many.add_options(made)
    console.add_draft(made)
    add("--ids", action="store_true", help="PROMPT and output are token ids, as in: 17 4 9")
    add("--show-special", action="store_true", help="control tokens are part of the text")
    add(
        "--logprobs",
        type=int,
        metavar="K",
        help="with --json: how likely the K likeliest tokens were",
    )
    add("--json", action="store_true", help="one JSON document on stdout, in place of the text")
    console.add_backend_options(made)
    console.add_huge_pages(made)
    return made


def run(arguments: argparse.Namespace) -> int:
    if arguments.huge_pages:
        huge_pages.start_again(arguments.words)
    chosen = dict(sampling.asked(arguments), **fitting.asked(arguments))
    asked = dict(_asked(arguments), show_special=arguments.show_special)
    asked.update(console.draft(arguments))
    if arguments.logprobs is not None:
        if not arguments.json:
            raise EdgeformerError("--logprobs stand in the document of --json: add --json")
        asked["logprobs"] = arguments.logprobs
    many.check(arguments, dict(asked, **chosen))

    import edgeformer

    options = arguments.backend, arguments.threads, arguments.cuda_graph
    with edgeformer.load(arguments.bundle, *options) as model:
        if arguments.prefix is not None:
            asked = prefix.put_before(model, arguments.prefix, asked)
        if arguments.beams is not None:
            return many.beams(model, arguments, dict(asked, **chosen))
        if arguments.n is None:
            streams = iter([model.stream(**asked, **chosen)])
        else:
            streams = model.streams(n=arguments.n, **asked, **chosen)
        console.say(f"backend: {model.backend_reason}")
        return _write(model, streams, arguments)


def _write(model: "Model", streams: "Iterator[Stream]", arguments: argparse.Namespace) -> int:
    """Each answer as it comes; the exit status."""
    answers: List[Dict[str, Any]] = []
    out = None if arguments.json else console.TextOut()
    status = 0
    for stream in streams:
        if out is not None and answers:
            out.write(many.BETWEEN)
        steps: List[Step] = []
        try:
            for step in stream:
                steps.append(step)
                if out is not None:
                    out.write(f"{step.token} " if arguments.ids else step.text)
        except KeyboardInterrupt:
            status = 130
        finally:
            stream.close()
            if out is not None:
                out.write("\n")
        console.say(f"{stream.finish_reason}: {stream.stats}")
        answers.append(_document(Generation.joined(steps, stream.finish_reason, stream.stats)))
        if status:
            break
    if arguments.json:
        many.print_json(model, arguments, answers[0] if arguments.n is None else answers)
    return status


def _document(answer: Generation) -> Dict[str, Any]:
    stats = answer.stats
    document = {
        "text": answer.text,
        "tokens": answer.tokens,
        "finish_reason": answer.finish_reason,
        "stats": dict(stats._asdict(), tokens_per_s=stats.tokens_per_s),
    }
    if answer.logprobs:
        both = zip(answer.logprobs, answer.top)
        document["logprobs"] = [{"logprob": one, "top": top} for one, top in both]
    return document


def _asked(arguments: argparse.Namespace) -> Dict[str, Any]:
    """A prompt or messages, as `Model.stream` takes them."""
    prompt = console.prompt(arguments.prompt, arguments.ids)
    if not arguments.chat:
        if arguments.system is not None:
            raise EdgeformerError("--system is for a chat: add --chat")
        return {"prompt": prompt}
    if arguments.ids:
        raise EdgeformerError("--chat takes text; leave out --ids")
    messages = [{"role": "user", "content": prompt}]
    if arguments.system is not None:
        content = console.argument_text(arguments.system, "--system")
        messages.insert(0, {"role": "system", "content": content})
    return {"messages": messages}
