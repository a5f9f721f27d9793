"""`bench`: what a bundle costs on this machine, in rounds that take turns with those of others."""

import argparse
import json
import os
import re
import sys
from typing import Any, Dict, List, Optional

from edgeformer.cli import console, huge_pages
from edgeformer.errors import EdgeformerError
from edgeformer.wholefile import check_writable


def parser(prog: Optional[str] = None) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog=prog or "python -m edgeformer bench",
        description="Measure bundles here: load, warm-up, time to first token, time of a token, "
        "time against rows in use, memory, and on a board power and heat. Rounds of several "
        "bundles or backends alternate, each in a fresh process; a ratio is told only where it "
        "is larger than the noise. Exit 0: measured. 1: a case died or gave other tokens than its "
        "golden ones. 2: something to change.",
        allow_abbrev=False,
    )
    add = made.add_argument
    add("bundles", metavar="BUNDLE", nargs="+", help="directories; one twice shows the noise")
    add("--backend", default="auto", metavar="NAME,NAME", help="auto (default), ort, trt")
    add("--threads", type=int, metavar="N", help="CPU threads (default: the fast cores)")
    add("--rounds", type=int, metavar="N", help="10 (default) are the fewest that give a ratio; "
        "30 (default) with --side-by-side")  # fmt: skip
    add("--side-by-side", action="store_true", help="all cases of a round in memory at once, "
        "decoding by turns in short blocks: finds differences of a few per cent")  # fmt: skip
    add("--new-tokens", type=int, metavar="N", help="tokens of a round (default: 64, if they fit)")
    add("--prompt-tokens", metavar="L,L", help="lengths of prompts (default: of 16,64,256 what "
        "fits); decoding follows the shortest")  # fmt: skip
    add("--rows", metavar="N,N", help="rows in use (default: of 64,256,1024 what fits)")
    console.add_huge_pages(made)
    add("--seed", type=int, default=1, metavar="S", help="of the prompts' tokens (default: 1)")
    add("--json", action="store_true", help="the whole document as the last line of stdout")
    add("-o", "--output", metavar="FILE", help="write the document to FILE, too")
    add("--board-report", action="store_true", help="do everything that a maintainer needs of a "
        "board, unattended: build engines, check, measure; -o FOLDER gets report.json and "
        "report.html. After a power cut the same command goes on where it was")  # fmt: skip
    add("--profile", action="store_true", help="of one bundle on ONNX Runtime: where the time of a "
        "token goes (and of prompts, with --prompt-tokens) by operator, layer and product, bytes "
        "read and their share of the bandwidth; what the profiler costs is told")  # fmt: skip
    return made


def run(arguments: argparse.Namespace) -> int:
    from edgeformer.backends.threads import check_threads
    from edgeformer.bench import document as documents
    from edgeformer.bench.cases import (
        ROUNDS,
        ROUNDS_SIDE_BY_SIDE,
        Asked,
        cases_of,
        settings_of,
    )
    from edgeformer.bench.measure import measure
    from edgeformer.bench.table import text_of
    from edgeformer.bundle import Bundle
    from edgeformer.cli import bench_profile

    if arguments.huge_pages and arguments.profile:  # it loads in this process
        huge_pages.start_again(sys.argv[1:])
    elif arguments.huge_pages:
        huge_pages.for_children()
    threads = arguments.threads
    if threads is not None:
        check_threads(threads, "--threads")
    rounds = ROUNDS_SIDE_BY_SIDE if arguments.side_by_side else ROUNDS
    asked = Asked(
        rounds if arguments.rounds is None else arguments.rounds,
        arguments.new_tokens,
        _numbers("--prompt-tokens", arguments.prompt_tokens),
        _numbers("--rows", arguments.rows),
        arguments.seed,
        arguments.side_by_side,
    )
    if arguments.profile:
        return bench_profile.run(arguments, asked, _command())
    if arguments.board_report:
        return _board_report(arguments, asked)
    bundles = [Bundle.open(path) for path in arguments.bundles]
    cases = cases_of(bundles, _names(arguments.backend), threads)
    settings = settings_of(asked, cases)
    if arguments.output is not None:
        check_writable(arguments.output)
    console.say(
        f"cases: {len(cases)}, rounds of each: {settings.rounds}, "
        f"new tokens: {settings.new_tokens}, prompts of {_listed(settings.prompt_tokens)}, "
        f"rows in use {_listed(settings.rows)}"
    )
    for bundle in bundles:
        sizes = bundle.sizes()
        console.say(f"reading {bundle.path}: {sum(sizes.values()) / 1e6:.1f} MB")
        bundle.verify_hashes()  # what the document names is what was measured
    made = measure(cases, settings, _command(), console.say)
    text = documents.text_of(made.document)
    if arguments.output is not None:  # first: whoever reads stdout may have gone
        _write(arguments.output, text)
    if not arguments.json:
        console.TextOut().write(text_of(made.document))
    else:
        print(text, flush=True)
    if made.interrupted:
        return 130
    return 1 if made.failed else 0


def _board_report(arguments: argparse.Namespace, asked: Any) -> int:
    from edgeformer.bench.board.document import PAGE, REPORT, passed, write_report

    if arguments.side_by_side:
        raise EdgeformerError(
            "--board-report tells what memory is left with one bundle at a time; leave out "
            "--side-by-side"
        )
    if arguments.backend != "auto" or arguments.threads is not None:
        raise EdgeformerError(
            "--board-report runs each bundle on ONNX Runtime and on every engine that can be "
            "built; leave out --backend and --threads"
        )
    folder = arguments.output
    if folder is None or os.path.isfile(folder):
        raise EdgeformerError("--board-report writes several files; give a folder: -o FOLDER")
    # whose folders they lay in is nobody's business
    command = [os.path.basename(w) if os.path.isabs(w) else w for w in _command()]
    report = write_report(arguments.bundles, asked, folder, command, console.say)
    if arguments.json:
        print(json.dumps(report, allow_nan=False), flush=True)
    console.say(f"wrote {os.path.join(folder, REPORT)} and {PAGE}; the first one is to be sent")
    tell_reasons(report)
    return 0 if passed(report) else 1


def tell_reasons(report: Dict[str, Any]) -> None:
    """What a maintainer would say to a report, told to whoever is about to send it."""
    from edgeformer.bench import commits
    from edgeformer.bench.board import origin
    from edgeformer.bench.board.judge import reasons

    against = reasons(report) + origin.reasons(report, commits.history())
    for reason in against:
        console.say(f"would be refused: {reason}")
    if not against:
        console.say("a maintainer can accept it: docs/benchmarks.md says where to send it")


def _write(path: str, text: str) -> None:
    """To the file; where that fails, what took so long goes to stdout at least."""
    from edgeformer.bench import document as documents

    try:
        documents.write(path, text)
    except EdgeformerError as error:
        print(text, flush=True)
        raise EdgeformerError(f"{error}; the document is the last line of stdout") from None
    console.say(f"wrote {path}")


def _names(text: str) -> List[str]:
    return list(dict.fromkeys(text.split(",")))


def _numbers(option: str, text: Optional[str]) -> Optional[List[int]]:
    if text is None:
        return None
    words = text.split(",")
    if not all(re.fullmatch("[0-9]{1,9}", word) for word in words):
        raise EdgeformerError(f"{option} is {text[:40]!r}; say numbers such as 16,64")
    return [int(word) for word in words]


def _listed(values: Any) -> str:
    return ", ".join(map(str, values))


def _command() -> List[str]:
    """What was typed, without the folder that the program lies in."""
    name = os.path.basename(sys.argv[0]) if sys.argv else ""
    program = "edgeformer" if name == "__main__.py" else name
    return [program, *sys.argv[1:]]
