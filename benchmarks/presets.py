"""The whole ladder of presets on this machine: every precision and backend to be had, in one table.

    python benchmarks/presets.py --quick [-o report.html]     presets up to 15M, a minute
    python benchmarks/presets.py --full [-o report.html]      all of them, a quarter of an hour
    python benchmarks/presets.py BUNDLE...                    what was exported before

Presets are exported on the spot with random weights (host only): their tokens mean nothing, what
they cost is the same. Rounds of the cases alternate, those of short presets among themselves and
those of long ones: a preset of 16 positions cannot follow the prompts of the others.
"""

import argparse
import json
import os
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

# This clone's, installed or not
sys.path.insert(1, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from report import markdown, runs, tables

from edgeformer.bench import document as documents
from edgeformer.bench.cases import Asked, Case, cases_of, settings_of
from edgeformer.bench.measure import measure
from edgeformer.bench.summary import comparisons
from edgeformer.bundle import MANIFEST, Bundle
from edgeformer.cli.stdout import ends_well
from edgeformer.engines.record import engine_sets
from edgeformer.errors import EdgeformerError
from edgeformer.wholefile import check_writable

LONG = 256  # positions, from which prompts of 16 tokens and 64 new ones fit


class Plan(NamedTuple):
    """`wanted`: by precision, the presets that are exported in it."""

    rounds: int
    wanted: Dict[str, Sequence[str]]


NANO = ("nano-xs", "nano-s", "nano-start", "nano-m", "nano-l")
ALL = (*NANO, "1m", "5m", "15m", "42m", "110m", "135m")
QUICK = Plan(
    2,
    {
        "fp32": ALL[: ALL.index("42m")],
        "int8-dynamic": ("nano-start",),
        "n8": ("nano-start", "1m", "5m"),
        "n4": ("nano-start",),
    },
)
# n4 and int8-dynamic measure matrix by matrix: minutes for the large ones.
FULL = Plan(
    10,
    {
        "fp32": ALL,
        "int8-dynamic": ("nano-start", "1m", "5m", "15m"),
        "n8": ALL,
        "n4": ("nano-start", "1m", "5m"),
    },
)


@ends_well
def main(arguments: Optional[List[str]] = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        return _run(options)
    except EdgeformerError as error:
        _say(f"error: {error}")
        return error.exit_code


def _run(options: argparse.Namespace) -> int:
    plan = FULL if options.full else QUICK if options.quick else None
    if (plan is None) == (not options.bundles):
        raise EdgeformerError("say --quick or --full, or give bundles")
    if options.output:
        check_writable(options.output)
    with tempfile.TemporaryDirectory() as folder:
        paths, parameters = options.bundles, {}  # type: List[str], Dict[str, int]
        if plan:
            parameters = _parameters()
            paths = exported(plan.wanted, parameters, options.folder or folder)
        rounds = options.rounds or (plan.rounds if plan else FULL.rounds)
        made = list(measured(paths, parameters, rounds, options.threads))
    kept = [_kept(document) for document, _ in made] if options.keep else []
    names = kept or [f"run {index + 1}" for index in range(len(made))]
    machines = runs.by_machine(
        [runs.Run(i + 1, names[i], document) for i, (document, _) in enumerate(made)]
    )
    if options.output:
        from report import page  # the pictures need matplotlib

        documents.write(options.output, page.text_of(machines, "edgeformer: the ladder"))
    found = [table for machine in machines for table in markdown.table(tables.ladder(machine.runs))]
    print("\n".join([*found, "", markdown.escaped(runs.beside(machines[0].runs))]))
    if options.json:
        print(json.dumps([document for document, _ in made], allow_nan=False))
    return 1 if any(failed for _, failed in made) else 0


def measured(
    paths: Sequence[str], parameters: Dict[str, int], rounds: int, threads: Optional[int]
) -> Iterator[Tuple[Dict[str, Any], bool]]:
    """(document, whether a case of it failed) of the short bundles, then of the long ones."""
    bundles = [Bundle.open(path) for path in paths]
    for is_long in (False, True):
        group = [one for one in bundles if (one.manifest.capacity >= LONG) == is_long]
        if not group:
            continue
        cases = _cases(group, threads)
        for case in cases:
            if parameters:  # exported here: what random weights lose says nothing
                case.model.update(parameters=parameters[case.model["name"]], quality=None)
        least = min(case.capacity for case in cases)
        asked = Asked(rounds, None, [16, 64], [64, 192])
        if not is_long:
            asked = Asked(
                rounds, None, [max(1, least // 4)], sorted({least // 4, least // 2} - {0})
            )
        run = measure(cases, settings_of(asked, cases), _command(), _say)
        run.document["comparisons"] = _by_model(run.document)
        yield run.document, run.failed


def _cases(bundles: Sequence[Bundle], threads: Optional[int]) -> List[Case]:
    """Each bundle on ONNX Runtime, and on TensorRT where its engines were built."""
    built = [bundle for bundle in bundles if engine_sets(bundle)[0]]
    if not built:
        _say("TensorRT: none of these bundles has an engine here; python -m edgeformer build")
    return cases_of(bundles, ["ort"], threads) + cases_of(built, ["trt"], threads)


def _by_model(document: Dict[str, Any]) -> List[Dict[str, Any]]:
    """Every case of a model against its first; cases of two models are not compared."""
    found = []  # type: List[Dict[str, Any]]
    names = dict.fromkeys(case["model"]["name"] for case in document["cases"])
    for name in names:
        same = [case for case in document["cases"] if case["model"]["name"] == name]
        found += comparisons(same, document["settings"]["confidence"])
    return found


def _parameters() -> Dict[str, int]:
    """Parameters of each preset."""
    from edgeformer.nn.costs import costs
    from edgeformer.nn.presets import PRESETS

    return {name: costs(config).parameters for name, config in PRESETS.items()}


def exported(plan: Dict[str, Sequence[str]], parameters: Dict[str, int], folder: str) -> List[str]:
    """Bundles of presets by precision, from the smallest preset up; two are exported at a time.

    What lies in `folder` from an earlier run is taken as it is.
    """
    wanted = [
        (name, precision, os.path.join(folder, f"{name}-{precision}"))
        for name in parameters
        for precision, names in plan.items()
        if name in names
    ]
    missing = [job for job in wanted if not os.path.exists(os.path.join(job[2], MANIFEST))]
    workers = min(2, os.cpu_count() or 1, len(missing))
    if missing:
        missing.sort(key=lambda job: -parameters[job[0]])  # the longest first
        _say(f"exporting {len(missing)} bundles with random weights, {workers} at a time")
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            for name, precision, path in pool.map(_export, missing):
                _say(f"exported {name} {precision} to {path}")
    return [path for _, _, path in wanted]


def _export(job: Tuple[str, str, str]) -> Tuple[str, str, str]:
    import torch

    from edgeformer.export import export_decoder
    from edgeformer.export.gate import Gate
    from edgeformer.nn.decoder import Decoder
    from edgeformer.nn.presets import PRESETS

    name, precision, path = job
    torch.set_num_threads(1)  # two exports share the machine
    torch.manual_seed(1)
    # random weights have flat distributions, whose likeliest tokens change places
    gate = Gate(allow=True)
    decoder = Decoder(PRESETS[name])
    export_decoder(decoder, path, name=name, target="cpu", precision=precision, gate=gate)
    return job


def _kept(document: Dict[str, Any]) -> str:
    """Where the document was written: benchmarks/results, by machine."""
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "results")
    folder = os.path.join(here, runs.folder_name(document))
    os.makedirs(folder, exist_ok=True)
    short = document["settings"]["prompt_tokens"][0]
    made = document["made"].replace(":", "").replace("-", "")
    path = os.path.join(folder, f"presets-{made}-prompt{short}.json")
    documents.write(path, documents.text_of(document))
    _say(f"kept {path}")
    return path


def _command() -> List[str]:
    return [os.path.basename(sys.argv[0]) if sys.argv else "", *sys.argv[1:]]


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python benchmarks/presets.py",
        description="Every preset, precision and backend on this machine: one table, one page.",
    )
    add = parser.add_argument
    add("bundles", metavar="BUNDLE", nargs="*", help="measure these instead of exporting presets")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="presets up to 15M, 2 rounds: no ratios")
    size.add_argument("--full", action="store_true", help="all presets, 10 rounds")
    add("--rounds", type=int, metavar="N", help="rounds of each case (2 if --quick, else 10)")
    add("--threads", type=int, metavar="N", help="CPU threads (default: the physical cores)")
    add("--folder", metavar="FOLDER", help="export to here, and take what lies here from before")
    add("--keep", action="store_true", help="keep the documents under benchmarks/results, too")
    add("--json", action="store_true", help="a list of the documents as the last line of stdout")
    add("-o", "--output", metavar="report.html", help="write a page with pictures, too")
    return parser


if __name__ == "__main__":
    sys.exit(main())
