"""`bench --profile`: where the time of one bundle's token goes."""

import argparse
import json
from typing import Any, Sequence

from edgeformer.cli import console
from edgeformer.errors import EdgeformerError
from edgeformer.wholefile import check_writable


def run(arguments: argparse.Namespace, asked: Any, command: Sequence[str]) -> int:
    """`asked`: the lengths and the seed of the command line."""
    from edgeformer.bench import document as documents
    from edgeformer.bench.profile.measure import profile, refuse_engines, wanted_of
    from edgeformer.bench.profile.text import text_of
    from edgeformer.bundle import Bundle

    if len(arguments.bundles) != 1:
        raise EdgeformerError(
            f"--profile takes one bundle, not {len(arguments.bundles)}; give the others their own"
        )
    if arguments.board_report:
        raise EdgeformerError("--profile and --board-report are two commands; give one of them")
    if arguments.side_by_side:
        raise EdgeformerError("--profile compares nothing; leave out --side-by-side")
    if arguments.rounds is not None:
        raise EdgeformerError("--profile takes no rounds; leave out --rounds")
    bundle = Bundle.open(arguments.bundles[0])
    refuse_engines(bundle, arguments.backend)
    wanted = wanted_of(bundle, asked.rows, asked.new_tokens, asked.prompt_tokens, asked.seed)
    if arguments.output is not None:
        check_writable(arguments.output)
    bundle.verify_hashes()  # what the document names is what was profiled
    document = profile(bundle, wanted, arguments.threads, command, console.say)
    text = json.dumps(document, allow_nan=False)
    if arguments.output is not None:
        documents.write(arguments.output, text)
        console.say(f"wrote {arguments.output}")
    if arguments.json:
        print(text, flush=True)
    else:
        console.TextOut().write(text_of(document))
    return 0
