"""Write the table of rules in docs/lint.md: `python -m tests.export.lint.make_docs`."""

import sys
from pathlib import Path

from edgeformer.export.lint import engine  # noqa: F401  fills the list of rules
from edgeformer.export.lint.rule import FILE_RULES, RULES

PATH = Path(__file__).parents[3] / "docs" / "lint.md"
BEGIN, END = "<!-- rules: made by tests.export.lint.make_docs -->\n", "<!-- end of rules -->"


def table() -> str:
    rows = ["| rule | operators | what it finds |", "|---|---|---|"]
    rows += [f"| `{name}` | the file or any | {title} |" for name, title in FILE_RULES.items()]
    for rule in RULES:
        operators = ", ".join(f"{name}" for name in rule.operators) or "any"
        rows.append(f"| `{rule.id}` | {operators} | {rule.title} |")
    return "\n".join(rows) + "\n"


def with_table(text: str) -> str:
    before, _, rest = text.partition(BEGIN)
    return before + BEGIN + table() + END + rest.partition(END)[2]


def main() -> int:
    PATH.write_text(with_table(PATH.read_text("utf-8")), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
