"""`score`: how likely a model finds a text."""

import argparse
import json
import math
from time import perf_counter
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Union

from edgeformer.cli import console

if TYPE_CHECKING:
    from edgeformer.generation.scoring import Score
    from edgeformer.model import Model


def parser() -> argparse.ArgumentParser:
    made = console.parser(
        "score", "How likely a model finds a text: perplexity and log-probabilities."
    )
    add = made.add_argument
    add("text", metavar="TEXT", help="the text; - reads stdin, less its last break")
    add("--after", metavar="TEXT", help="what comes before TEXT; it is read and not scored")
    add(
        "--overlap",
        type=int,
        metavar="N",
        help="long texts: in windows, N tokens before each token",
    )
    add("--ids", action="store_true", help="TEXT and --after are token ids, as in: 17 4 9")
    add("--json", action="store_true", help="one JSON document on stdout, with every token")
    console.add_backend_options(made)
    return made


def run(arguments: argparse.Namespace) -> int:
    text = console.prompt(arguments.text, arguments.ids)
    after: Optional[Union[str, List[int]]] = None
    if arguments.after is not None:
        after = console.prompt(arguments.after, arguments.ids, "--after")

    import edgeformer

    options = arguments.backend, arguments.threads, arguments.cuda_graph
    with edgeformer.load(arguments.bundle, *options) as model:
        console.say(f"backend: {model.backend_reason}")
        started = perf_counter()
        score = model.score(text, after=after, overlap=arguments.overlap)
        console.say(f"{len(score.tokens)} tokens in {perf_counter() - started:.2f} s")
        print(json.dumps(document(model, score)) if arguments.json else score)
    return 0


def document(model: "Model", score: "Score") -> Dict[str, Any]:
    tokens = []
    for token, logprob in zip(score.tokens, score.logprobs):
        entry: Dict[str, Any] = {"token": token, "logprob": logprob}
        if model.tokenizer is not None:
            entry["text"] = model.tokenizer.decode([token], show_special=True)
        tokens.append(entry)
    return {
        "bundle": model.bundle.path,
        "name": model.bundle.manifest.name,
        "tokens": tokens,
        "scored": score.scored,
        "logprob": score.total,
        "perplexity": score.perplexity if score.perplexity < math.inf else None,
        "backend_reason": model.backend_reason,
    }
