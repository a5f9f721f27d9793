"""What result files say, side by side: Markdown on stdout, and one HTML file with pictures.

    python benchmarks/compare.py A.json [B.json ...] [-o report.html]

Documents of different machines are kept apart. A ratio is only ever one that a single run took
between its own alternating rounds, with both cases' parity passed; everything else is refused,
with the reason in its place. docs/benchmarks.md says what each figure means.
"""

import argparse
import sys
from typing import List, Optional

from report import markdown, runs

from edgeformer.bench import document as documents
from edgeformer.errors import EdgeformerError


def main(arguments: Optional[List[str]] = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        if options.output:
            documents.writable(options.output)
        machines = runs.by_machine(runs.read(options.files))
        if options.output:
            from report import page  # the pictures need matplotlib

            page.write(options.output, machines)
        print(markdown.report(machines))
    except EdgeformerError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python benchmarks/compare.py",
        description="Result files side by side: Markdown on stdout, and HTML with pictures.",
    )
    parser.add_argument("files", metavar="FILE.json", nargs="*", help="what bench has written")
    parser.add_argument("-o", "--output", metavar="report.html", help="write this page, too")
    return parser


if __name__ == "__main__":
    sys.exit(main())
