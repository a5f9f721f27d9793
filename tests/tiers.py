"""docs/tiers.md: which choice of a config, checkpoint family and preset each tier has proved.

Tests that carry `@pytest.mark.proves(KIND, COLUMN, ...)` and a parameter `name` leave their outcome
in .cache/tiers/. `python -m tests.tiers` renders the page from what lies there, and with --check it
fails where the committed page says anything else than a complete set of results.
"""

import argparse
import fcntl
import json
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RESULTS = os.path.join(ROOT, ".cache", "tiers")
PAGE = os.path.join(ROOT, "docs", "tiers.md")
BEGIN, END = "<!-- made by python -m tests.tiers -->\n", "<!-- end of the tables -->"

# Column -> the kinds of rows that its tests have.
COLUMNS = {
    "lint 8.2": ("choice", "family"),
    "lint 8.5": ("choice", "family"),
    "lint 8.6": ("choice", "family"),
    "lint 10": ("choice", "family"),
    "rtx fp32": ("choice", "family", "preset"),
    "rtx fp16": ("choice", "family", "preset"),
    "rtx int8": ("choice", "family"),
    "standin 8.6": ("choice",),
    "standin 10.3": ("choice",),
    "standin 11": ("choice",),
}
YES, NO, NOT_RUN, NOT_YET = "yes", "FAILED", "NOT RUN", "not yet"


def record(kind, name, column, test, passed):
    """Keep the outcome of one test; a cell of the table is the sum of its tests."""
    path = os.path.join(RESULTS, column.replace(" ", "-") + ".json")
    os.makedirs(RESULTS, exist_ok=True)
    with open(path + ".lock", "w") as lock:  # tests run in several processes
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = _read(path)
        found.setdefault(kind + " " + name, {})[test] = passed
        with open(path + ".part", "w", encoding="utf-8") as file:
            json.dump(found, file, indent=1, sort_keys=True)
        os.replace(path + ".part", path)


def record_report(item, report):
    """What the mark `proves` of a test says, of a report of pytest."""
    mark = item.get_closest_marker("proves")
    if mark is None or report.skipped or (report.when != "call" and report.passed):
        return
    parameters = item.callspec.params
    for column in mark.args[1:]:
        record(
            mark.args[0],
            parameters["name"],
            column.format(**parameters),
            item.nodeid.split("[")[0],
            report.passed,
        )


def results():
    """{column: {"KIND NAME": {test: passed}}} of the last runs."""
    return {
        column: _read(os.path.join(RESULTS, column.replace(" ", "-") + ".json"))
        for column in COLUMNS
    }


def rows():
    """{kind: [names]} as the code has them now."""
    from edgeformer.nn.presets import PRESETS
    from tests.nn.choices import CHOICES
    from tests.nn.families.shapes import SHAPES

    return {"choice": list(CHOICES), "family": list(SHAPES), "preset": list(PRESETS)}


def cell(column, kind, name, found):
    if kind not in COLUMNS[column]:
        return NOT_YET
    tests = found[column].get(kind + " " + name)
    if not tests:
        return NOT_RUN
    return YES if all(tests.values()) else NO


def tables(found):
    """{kind: {name: [cells]}}"""
    return {
        kind: {name: [cell(c, kind, name, found) for c in COLUMNS] for name in names}
        for kind, names in rows().items()
    }


TITLES = {
    "choice": "Choices of a config (tests/nn/choices.py)",
    "family": "Checkpoint families, by shape (tests/nn/families/shapes.py)",
    "preset": "Presets (edgeformer/nn/presets.py)",
}


def rendered(found):
    lines = []
    for kind, table in tables(found).items():
        lines += ["", "## " + TITLES[kind], "", "| | " + " | ".join(COLUMNS) + " |"]
        lines.append("|---" * (len(COLUMNS) + 1) + "|")
        lines += ["| `%s` | %s |" % (name, " | ".join(cells)) for name, cells in table.items()]
    return "\n".join(lines[1:]) + "\n\n"


def page(text, found):
    """The page with its tables made anew."""
    before, _, rest = text.partition(BEGIN)
    return before + BEGIN + rendered(found) + END + rest.partition(END)[2]


def claims(text):
    """{kind: {name: [cells]}} of the committed page."""
    found, kind = {}, None
    for line in text.splitlines():
        if line.startswith("## "):
            kind = next((k for k, title in TITLES.items() if title == line[3:]), None)
        elif kind and line.startswith("| `"):
            name, *cells = [part.strip() for part in line.strip("|").split("|")]
            found.setdefault(kind, {})[name.strip("`")] = cells
    return found


def main(arguments):
    parser = argparse.ArgumentParser(
        prog="python -m tests.tiers", description="Render docs/tiers.md from the tests' results."
    )
    parser.add_argument(
        "--check", action="store_true", help="change nothing; exit 1 where the page is not complete"
    )
    check = parser.parse_args(arguments).check
    with open(PAGE, encoding="utf-8") as file:
        old = file.read()
    new = page(old, results())
    incomplete = new.count("| %s " % NOT_RUN) + new.count("| %s " % NO)
    if not check:
        with open(PAGE, "w", encoding="utf-8") as file:
            file.write(new)
        print("docs/tiers.md: %d cells not run or failed" % incomplete, file=sys.stderr)
        return 0
    if old == new and not incomplete:
        return 0
    print(
        "docs/tiers.md is not what the last results say, or %d cells were not run or failed; "
        "fill it again: make test test-slow test-rtx test-standin && python -m tests.tiers"
        % incomplete,
        file=sys.stderr,
    )
    return 1


def _read(path):
    if not os.path.isfile(path):
        return {}
    with open(path, encoding="utf-8") as file:
        return json.load(file)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
