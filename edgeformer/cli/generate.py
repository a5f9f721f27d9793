"""`generate`: a prompt in, text out as it comes."""

import argparse
import json
from typing import Any, Dict, List

from edgeformer.cli import console, fitting, huge_pages, prefix, sampling
from edgeformer.errors import EdgeformerError
from edgeformer.generation.steps import Generation, Step


def parser() -> argparse.ArgumentParser:
    made = console.parser("generate", "Stream text from a bundle: text on stdout, stats on stderr.")
    add = made.add_argument
    add("prompt", metavar="PROMPT", help="the text to continue; - reads stdin, less its last break")
    add("--chat", action="store_true", help="answer PROMPT, in the chat template of the bundle")
    add("--system", metavar="TEXT", help="with --chat: what the model is told beforehand")
    prefix.add_option(made)
    sampling.add_options(made)
    fitting.add_options(made)
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
    asked = _asked(arguments)
    asked["show_special"] = arguments.show_special
    if arguments.logprobs is not None:
        if not arguments.json:
            raise EdgeformerError("--logprobs stand in the document of --json: add --json")
        asked["logprobs"] = arguments.logprobs

    import edgeformer

    options = arguments.backend, arguments.threads, arguments.cuda_graph
    with edgeformer.load(arguments.bundle, *options) as model:
        if arguments.prefix is not None:
            asked = prefix.put_before(model, arguments.prefix, asked)
        stream = model.stream(**asked, **chosen)
        console.say(f"backend: {model.backend_reason}")
        status = 0
        steps: List[Step] = []
        out = None if arguments.json else console.TextOut()
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
        if arguments.json:
            answer = Generation.joined(steps, stream.finish_reason, stream.stats)
            document = {
                "bundle": arguments.bundle,
                "name": model.bundle.manifest.name,
                "backend_reason": model.backend_reason,
            }
            print(json.dumps(dict(document, **_document(answer))))
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
