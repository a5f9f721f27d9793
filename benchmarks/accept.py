"""Reports from boards: accepted or refused with every reason, and README's table of them.

    python -m benchmarks.accept report.json [...]     # into benchmarks/results/boards/, or refused
    python -m benchmarks.accept --readme              # writes the table between README's markers

Exit 0: accepted. 1: refused. 2: a file is no report, or something else must be changed.
"""

import argparse
import hashlib
import json
import os
import sys
from typing import Any, Dict, List, Optional, Tuple

from edgeformer.bench import commits
from edgeformer.bench.board import document, origin
from edgeformer.bench.board.judge import reasons, shown
from edgeformer.bench.board.parts import write_bytes
from edgeformer.cli.stdout import ends_well
from edgeformer.errors import EdgeformerError

HERE = os.path.dirname(os.path.abspath(__file__))
RESULTS = os.path.join(HERE, "results", "boards")
README = os.path.join(os.path.dirname(HERE), "README.md")
BEGIN = "<!-- boards: written by python -m benchmarks.accept --readme -->"
END = "<!-- /boards -->"
NONE = (
    "No board has reported yet. Yours could be the first: [docs/benchmarks.md](docs/benchmarks.md)."
)

Value = Dict[str, Any]


@ends_well
def main(arguments: Optional[List[str]] = None) -> int:
    made = argparse.ArgumentParser(
        prog="python -m benchmarks.accept",
        description="Accept reports that `edgeformer bench --board-report` made on a board into "
        "benchmarks/results/boards, or say why not; write README's table of the accepted ones.",
    )
    made.add_argument("files", metavar="FILE", nargs="*", help="report.json of a board")
    made.add_argument("--readme", action="store_true", help="write the table into README.md")
    made.add_argument("--results", default=RESULTS, metavar="FOLDER", help="of accepted reports")
    options = made.parse_args(arguments)
    if not options.files and not options.readme:
        made.error("give a FILE, or --readme")
    try:
        verdicts = [accept(path, options.results) for path in options.files]
        if options.readme:
            with open(README, encoding="utf-8") as file:
                text = with_table(file.read(), options.results)
            write_bytes(README, text.encode("utf-8"))
    except EdgeformerError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0 if all(verdicts) else 1


def accept(path: str, results: str) -> bool:
    """Put one report among the accepted ones, or print why not."""
    report = document.read(path)
    history = commits.history()
    against = reasons(report) + origin.reasons(report, history)
    if against:
        print(f"refused: {path}")
        for reason in against:
            print(f"  - {reason}")
        return False
    unknown = origin.unknown(report, history)
    if unknown:
        print(f"not looked up: {unknown}")
    content = (json.dumps(report, sort_keys=True, allow_nan=False) + "\n").encode("ascii")
    board = report["machine"]["board"]
    digest = hashlib.sha256(content).hexdigest()[:12]
    target = os.path.join(results, f"{board['target']}-{board['l4t']}-{digest}.json")
    if os.path.exists(target):
        print(f"known: {path} is {os.path.basename(target)}")
        return True
    os.makedirs(results, exist_ok=True)
    write_bytes(target, content)
    print(
        f"accepted: {path} as {os.path.basename(target)}; now: python -m benchmarks.accept --readme"
    )
    return True


def accepted(results: str = RESULTS) -> List[Tuple[str, Value]]:
    """(name, report) of every file there; one that would be refused today is an error."""
    names = os.listdir(results) if os.path.isdir(results) else []
    found = []
    history = commits.history()
    for name in sorted(name for name in names if name.endswith(".json")):
        report = document.read(os.path.join(results, name))
        against = reasons(report) + origin.reasons(report, history)
        if against:
            raise EdgeformerError(f"{name} is no accepted report: {against[0]}; remove it")
        found.append((name, report))
    return found


def with_table(text: str, results: str = RESULTS) -> str:
    """README's text with the table of accepted reports between its markers."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise EdgeformerError(f"README.md lacks its markers; put back {BEGIN} and {END}")
    return before + BEGIN + "\n" + table(accepted(results)) + "\n" + END + after


def table(reports: List[Tuple[str, Value]]) -> str:
    """Markdown, from accepted reports alone."""
    if not reports:
        return NONE
    head = [
        "board",
        "JetPack, mode, clocks",
        "model",
        "runs on",
        "tokens/s (slowest to fastest round)",
    ]
    head += ["first token", "lowest free memory", "energy a token", "report"]
    rows = [head, ["---"] * len(head)]
    for name, report in reports:
        board = report["machine"]["board"]
        locked = {True: "locked", False: "free", None: "not told"}[board["clocks_locked"]]
        state = f"{board['jetpack'] or board['l4t']}, {board['power_mode'] or 'not told'}, {locked}"
        link = f"[{name[-17:-5]}](benchmarks/results/boards/{name})"
        for bundle in report["bundles"]:
            for case in bundle["bench"]["cases"]:
                runs = case["name"][len(bundle["model"]["name"]) + 1 :]
                slowed = any(turn["throttled"] for turn in case["rounds"])
                figures = list(shown(case))
                figures[0] += ", slowed by heat" if slowed else ""
                model = f"{bundle['model']['name']}"
                told = [board["model"], state, model, runs, *figures]
                rows.append([*map(_cell, told), link])
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines)


def _cell(text: str) -> str:
    """A stranger's text as plain text in a Markdown table."""
    text = "".join(letter if letter.isprintable() else " " for letter in text)
    for letter in "\\`*_[]<>|&":
        text = text.replace(letter, "\\" + letter)
    return " ".join(text.replace("://", ":\\/\\/").split())


if __name__ == "__main__":
    sys.exit(main())
