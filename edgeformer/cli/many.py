"""Several answers of one prompt on the command line: their options, beams, and the document."""

import argparse
import json
from time import perf_counter
from typing import TYPE_CHECKING, Any, Dict

from edgeformer.cli import console
from edgeformer.errors import EdgeformerError

if TYPE_CHECKING:
    from edgeformer.model import Model

BETWEEN = "---\n"
EARLY = {"yes": True, "no": False, "never": "never"}


def add_options(made: argparse.ArgumentParser) -> None:
    add = made.add_argument
    add(
        "-n",
        type=int,
        metavar="N",
        help="N drawn answers, or the N best of --beams, a line --- between",
    )
    add("--beams", type=int, metavar="K", help="search the likeliest answers with K beams")
    add(
        "--length-penalty", type=float, metavar="P", help="of beams: above 0 for longer answers (1)"
    )
    add("--early-stopping", choices=list(EARLY), help="of beams: end with K finished answers (no)")


def check(arguments: argparse.Namespace, chosen: Dict[str, Any]) -> None:
    """Refuse what does not go together, before a model is loaded. `chosen`: the sampling."""
    if arguments.beams is None:
        for option in ("length_penalty", "early_stopping"):
            if getattr(arguments, option) is not None:
                name = option.replace("_", "-")
                raise EdgeformerError(f"--{name} is for beams: add --beams")
        return
    for option in ("regex", "json_schema", "draft"):
        if getattr(arguments, option) is not None:
            name = option.replace("_", "-")
            raise EdgeformerError(f"--beams and --{name} do not go together; leave out one of them")
    from edgeformer.generation.params import NOT_FOR_BEAMS, SamplingParams

    names = [name for name in NOT_FOR_BEAMS if name in chosen]
    SamplingParams().changed({name: chosen[name] for name in names}).refuse_for_beams()


def beams(model: "Model", arguments: argparse.Namespace, asked: Dict[str, Any]) -> int:
    """Search, and write the best answers; the exit status."""
    asked = dict(asked, beams=arguments.beams)
    if arguments.n is not None:
        asked["n"] = arguments.n
    if arguments.length_penalty is not None:
        asked["length_penalty"] = arguments.length_penalty
    if arguments.early_stopping is not None:
        asked["early_stopping"] = EARLY[arguments.early_stopping]
    console.say(f"backend: {model.backend_reason}")
    started = perf_counter()
    found = model.beams(**asked)
    console.say(f"{arguments.beams} beams in {perf_counter() - started:.2f} s")
    if not found:
        console.say("no answer: the deadline came before the first token")
    for each in found:
        console.say(f"{each.finish_reason}: score {each.score:.6g}, {len(each.tokens)} tokens")
    if arguments.json:
        print_json(model, arguments, [each._asdict() for each in found])
        return 0
    ids = [" ".join(map(str, each.tokens)) for each in found]
    texts = ids if arguments.ids else [each.text for each in found]
    console.TextOut().write(("\n" + BETWEEN).join(texts) + "\n")
    return 0


def print_json(model: "Model", arguments: argparse.Namespace, answers: Any) -> None:
    """One document: of one answer, or with a list of them."""
    document = {
        "bundle": arguments.bundle,
        "name": model.bundle.manifest.name,
        "backend_reason": model.backend_reason,
    }
    print(
        json.dumps(
            dict(document, **(answers if isinstance(answers, dict) else {"answers": answers}))
        )
    )
