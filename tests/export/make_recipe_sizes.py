"""Write what is predicted into the recipes and their table.

`python -m tests.export.make_recipe_sizes`, on the host, after a change of a recipe or of the plan.
"""

import re

from tests.export.recipe_fit import FOLDER, RECIPES, claims, row


def main():
    table = FOLDER / "README.md"
    text = table.read_text("utf-8")
    for file in RECIPES:
        path = FOLDER / file
        block = "\n".join(claims(file)) + "\n"
        found = path.read_text("utf-8")
        found, times = re.subn(r"# PREDICTED.*\n(#.*\n)*", lambda _, b=block: b, found)
        assert times == 1, f"{file}: no place for the prediction"
        path.write_text(found, "utf-8")
        text, times = re.subn(rf"\| `{re.escape(file)}` \|.*", lambda _, f=file: row(f), text)
        assert times == 1, f"{file}: not in the table"
    table.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
