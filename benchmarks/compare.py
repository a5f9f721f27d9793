"""What result files say, side by side: Markdown on stdout, and one HTML file with pictures.

    python benchmarks/compare.py A.json [B.json ...] [-o report.html]
    python benchmarks/compare.py --history [FIGURE] [--results FOLDER] [--fail-on-regression]

Documents of different machines are kept apart. A ratio is only ever one that a single run took
between its own alternating rounds, with both cases' parity passed; everything else is refused,
with the reason in its place. docs/benchmarks.md says what each figure means.
"""

import argparse
import os
import sys
from typing import List, Optional

# This clone's, installed or not
sys.path.insert(1, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from report import figures, history, markdown, runs

from edgeformer.cli.stdout import ends_well
from edgeformer.errors import EdgeformerError
from edgeformer.wholefile import check_writable


@ends_well
def main(arguments: Optional[List[str]] = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        if options.output:
            check_writable(options.output)
        if options.history:
            return _history(options)
        return _compare(options)
    except EdgeformerError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "matplotlib":
            raise
        print(
            "error: pictures need matplotlib (python -m pip install matplotlib); leave out -o for "
            "Markdown alone",
            file=sys.stderr,
        )
        return 2


def _compare(options: argparse.Namespace) -> int:
    if options.fail_on_regression:
        raise EdgeformerError("--fail-on-regression goes with --history")
    machines = runs.by_machine(runs.read(options.files))
    if options.output:
        from report import page  # the pictures need matplotlib

        page.write(options.output, machines)
    print(markdown.report(machines))
    return 0


def _history(options: argparse.Namespace) -> int:
    """1 where the newest run of a machine is worse than noise explains, if that was asked for."""
    figure = options.history
    if figures.kind(figure) is None:
        known = ", ".join(figures.KINDS)
        raise EdgeformerError(f"no figure {figure!r}; known: {known}; such as rows_s/64")
    others = []  # type: List[str]
    if options.files:
        documents_found = runs.read(options.files)
    else:
        documents_found, others = history.documents_below(options.results)
    for line in others:
        print(line, file=sys.stderr)
    machines = history.machines_in(documents_found)
    found = [(machine, history.series(machine, figure)) for machine in machines]
    if not any(series for _, series in found):
        raise EdgeformerError(f"no result holds the figure {figure}; known: rows_s/64, token_s ...")
    found = [(machine, series) for machine, series in found if series]
    if options.output:
        from report import history_page

        history_page.write(options.output, found, figure)
    print(markdown.history(found, figure))
    newest = [one for machine, series in found for one in series if history.regressed(machine, one)]
    return 1 if newest and options.fail_on_regression else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python benchmarks/compare.py",
        description="Result files side by side: Markdown on stdout, and HTML with pictures.",
    )
    parser.add_argument("files", metavar="FILE.json", nargs="*", help="what bench has written")
    parser.add_argument("-o", "--output", metavar="report.html", help="write this page, too")
    parser.add_argument(
        "--history",
        metavar="FIGURE",
        nargs="?",
        const="token_s",
        help="one figure over the commits of each machine (token_s)",
    )
    parser.add_argument(
        "--results",
        metavar="FOLDER",
        default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "results"),
        help="where --history looks if no files are given (benchmarks/results)",
    )
    parser.add_argument(
        "--fail-on-regression",
        action="store_true",
        help="exit with 1 where the newest run is worse than noise explains",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
