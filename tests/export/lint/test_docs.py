"""docs/lint.md lists the rules that there are."""

from tests.export.lint.make_docs import PATH, with_table


def test_the_table_of_rules_is_the_list_of_rules():
    text = PATH.read_text("utf-8")
    assert with_table(text) == text, "run: python -m tests.export.lint.make_docs"
    assert "| `op-missing` |" in text
