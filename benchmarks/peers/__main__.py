"""`python -m benchmarks.peers install|list|run|show`."""

import argparse
import sys
import time
from pathlib import Path
from typing import Any, Dict, List, Optional

from benchmarks.peers import environments as envs
from benchmarks.peers.engines import (
    PEERS,
    REFERENCE,
    known,
    parse_engine,
    parse_engines,
    parse_pairs,
)
from benchmarks.peers.forms import Forms, environments_of
from benchmarks.peers.series import Case, Series, Settings
from edgeformer.bench import conditions, statistics
from edgeformer.bench import document as documents
from edgeformer.cli.stdout import ends_well
from edgeformer.device.monitor import Monitor
from edgeformer.errors import EdgeformerError
from edgeformer.speed.probe import MOST_BYTES, read_bandwidth, samples
from edgeformer.wholefile import check_writable

PROBES = 5
ENGINES = "edgeformer:fp32,transformers:fp32,llama.cpp:f32"


@ends_well
def main(arguments: Optional[List[str]] = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        return int(options.do(options))
    except EdgeformerError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


def install(options: argparse.Namespace) -> int:
    where = envs.Environments(options.environments)
    unknown = [name for name in options.names if name not in envs.names()]
    if unknown:
        raise EdgeformerError(f"no engine {unknown[0]!r}; there are {', '.join(envs.names())}")
    for name in options.names or envs.names():
        if where.lacks(name):
            _say(f"installing {name} into {where.folder / name}")
            where.install(name)
        else:
            _say(f"{name} is there already, with these pins")
    return 0


def listed(options: argparse.Namespace) -> int:
    where = envs.Environments(options.environments)
    for engine, peer in PEERS.items():
        state = f"not installed: {envs.INSTALL} {peer.environment}"
        print(f"{engine:20}{', '.join(peer.kinds):40}", end="")
        print(state if where.lacks(peer.environment) else "installed")
    return 0


def run(options: argparse.Namespace) -> int:
    chosen = parse_engines(options.engines)
    pairs = parse_pairs(options.pairs, chosen)
    settings = _settings(options)
    where = envs.Environments(options.environments)
    every = [*chosen, parse_engine(REFERENCE)]
    forms = ["ids.json", *(c.kind.form for c in every if c.path is None)]
    where.require([c.peer.environment for c in every] + environments_of(forms))
    if options.output:
        check_writable(options.output)
    made, began = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), time.perf_counter()
    machine = conditions.machine()  # the load average before our own load
    place = Forms(options.model, settings.capacity, options.cache, where)
    with Monitor() as monitor:
        series = Series([Case(c) for c in chosen], place, settings, monitor, _say)
        series.run(lambda: _bandwidth(settings.threads))
    about = {
        "made": made,
        "seconds": round(time.perf_counter() - began, 3),
        "command": ["python", "-m", "benchmarks.peers", *sys.argv[1:]],
        "machine": machine,
        "probed": {"working_set_bytes": MOST_BYTES, "threads": settings.threads},
    }
    return _tell(series, pairs, about, options)


def _bandwidth(threads: int) -> float:
    """Bytes a second that this machine reads just now: it drifts, by a factor of two."""
    (found,) = samples([read_bandwidth(MOST_BYTES, threads)], PROBES)
    return found.middle


def _tell(series: Series, pairs: Any, about: Dict[str, Any], options: argparse.Namespace) -> int:
    from benchmarks.peers.document import document_of, text_of

    document = document_of(series, pairs, options.confidence, about)
    text = documents.text_of(document)
    if options.output:
        documents.write(options.output, text)
        _say(f"wrote {options.output}")
    print(text if options.json else text_of(document))
    if not series.complete:
        return 130
    good = all(c["error"] is None and c["parity"]["passed"] for c in document["cases"])
    return 0 if good else 1


def show(options: argparse.Namespace) -> int:
    from benchmarks.peers.document import text_of

    document = documents.read(options.file)
    if document["kind"] != "peers":
        raise EdgeformerError(f"{options.file} is of kind {document['kind']}, not of kind peers")
    print(text_of(document))
    return 0


def _settings(options: argparse.Namespace) -> Settings:
    words = options.prompt_tokens.split(",")
    if not all(word.isdigit() and 0 < int(word) < 3000 for word in words):
        raise EdgeformerError(f"--prompt-tokens is {options.prompt_tokens!r}; say 64,512 or so")
    for name, low, high in (("rounds", 1, 1000), ("threads", 1, 1024), ("windows", 1, 12)):
        value = getattr(options, name)
        if not low <= value <= high:
            raise EdgeformerError(f"--{name} is {value}; it must be from {low} to {high}")
    if not 2 <= options.new_tokens <= 4096:
        raise EdgeformerError(f"--new-tokens is {options.new_tokens}; it must be from 2 to 4096")
    if not 0.5 <= options.confidence < 1:
        raise EdgeformerError(f"--confidence is {options.confidence}; it must be from 0.5 to 1")
    needed = statistics.rounds_needed(options.confidence)
    if options.rounds < needed:
        _say(f"{options.rounds} rounds give figures, no ratios: {needed} are needed for those")
    prompts = [int(word) for word in words]
    return Settings(options.rounds, options.threads, prompts, options.new_tokens, options.windows)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers", description="Other engines beside edgeformer."
    )
    verbs = parser.add_subparsers(dest="verb", metavar="VERB")
    verbs.required = True
    made = {}
    for name, do, told in (
        ("install", install, "give engines environments of their own (downloads)"),
        ("list", listed, "engines, their precisions, and whether they are installed"),
        ("run", run, "time engines in rounds that take turns, and what their answers are worth"),
        ("show", show, "a document as Markdown tables"),
    ):
        made[name] = verbs.add_parser(name, help=told, description=told, allow_abbrev=False)
        made[name].set_defaults(do=do)
    for name in ("install", "list", "run"):
        made[name].add_argument(
            "--environments", type=Path, default=envs.ROOT / ".peers", metavar="FOLDER",
            help="where they are (default: .peers)",
        )  # fmt: skip
    made["install"].add_argument("names", metavar="NAME", nargs="*", help=", ".join(envs.names()))
    made["show"].add_argument("file", metavar="FILE.json")
    _add_run(made["run"].add_argument)
    return parser


def _add_run(add: Any) -> None:
    add("model", metavar="MODEL", help="a Llama: GGUF file or checkpoint folder")
    add("--engines", default=ENGINES, metavar="E:P,E:P", help="all, or of "
        f"{', '.join(known())}; edgeformer:n8@FOLDER takes a bundle that is there "
        f"(default: {ENGINES})")  # fmt: skip
    add("--pairs", metavar="A//B,A//B", help="what is compared (default: ours with every other "
        "of as many bits)")  # fmt: skip
    add("--rounds", type=int, default=7, metavar="N", help="of every engine (default: 7)")
    add("--confidence", type=float, default=0.95, metavar="C", help="of a ratio's interval "
        "(default: 0.95, which 6 rounds give; 0.998 needs 10)")  # fmt: skip
    add("--threads", type=int, default=2, metavar="N", help="of every engine (default: 2)")
    add("--prompt-tokens", default="64,512", metavar="L,L", help="lengths (default: 64,512)")
    add("--new-tokens", type=int, default=128, metavar="N", help="after each (default: 128)")
    add("--windows", type=int, default=4, metavar="N", help="of 256 tokens, that quality is "
        "measured on (default: 4)")  # fmt: skip
    add("--cache", type=Path, default=envs.ROOT / ".cache" / "peers", metavar="FOLDER",
        help="keeps the model in each engine's form (default: .cache/peers)")  # fmt: skip
    add("--json", action="store_true", help="the document as the last line of stdout")
    add("-o", "--output", metavar="FILE", help="write the document to FILE, too")


if __name__ == "__main__":
    sys.exit(main())
