"""The recipes in export/: what they name, that it fits what they claim, and the way out offline."""

import dataclasses
import os
import re
import subprocess
import sys

import pytest

from edgeformer.export.recipe import read_recipe
from edgeformer.nn.families import config_of, find_family
from edgeformer.nn.sources.hub import HUB_ID
from tests.export.recipe_fit import FOLDER, PUBLISHED, RECIPES, ROOT, claims, row

OURS = {"nano-austen.toml", "nano-start.toml"}
AGAIN = "run: python -m tests.export.make_recipe_sizes"
EXPORT_ALL = """
import sys
from edgeformer.export.__main__ import main
for recipe in sys.argv[2:]:
    print(main([recipe, "-o", sys.argv[1]]), file=sys.stderr)
"""


def test_every_recipe_is_in_the_table_of_sizes():
    assert {path.name for path in FOLDER.glob("*.toml")} == OURS | set(RECIPES)
    assert set(RECIPES.values()) <= set(PUBLISHED)


@pytest.mark.parametrize("file", RECIPES)
def test_a_recipe_names_its_model_by_a_hub_id_and_says_its_licence(file):
    recipe = read_recipe(FOLDER / file)
    assert HUB_ID.fullmatch(recipe.model.source)
    # the published config is that of this very model, not of a neighbour
    assert recipe.model.source.lower().endswith(RECIPES[file].lower()) or (
        recipe.model.source.lower().startswith("tinyllama/" + RECIPES[file].lower())
    )
    assert recipe.name.lower() == file.removesuffix(".toml")
    assert recipe.license


@pytest.mark.parametrize("file", RECIPES)
def test_capacity_and_chunk_are_said_and_within_the_model(file):
    recipe, values = read_recipe(FOLDER / file), PUBLISHED[RECIPES[file]]["config"]
    config = config_of(find_family(values["model_type"]), values)
    assert 1 <= recipe.graph.chunk <= recipe.graph.capacity <= config.max_positions
    dataclasses.replace(config, max_positions=recipe.graph.capacity)  # checks itself


@pytest.mark.slow
@pytest.mark.parametrize("file", RECIPES)
def test_a_recipe_says_what_the_fit_plan_says(file):
    """Of the graphs that would be exported, at the recipe's own capacity and chunk."""
    said = (FOLDER / file).read_text("utf-8").splitlines()
    start = next(i for i, line in enumerate(said) if line.startswith("# PREDICTED"))
    wanted = claims(file)
    for line, claim in zip(said[start:], wanted, strict=False):
        assert agree(line, claim), AGAIN
    assert not said[start + len(wanted)].startswith("#"), AGAIN
    table = (FOLDER / "README.md").read_text("utf-8").splitlines()
    (line,) = [line for line in table if line.startswith(f"| `{file}` |")]
    assert agree(line, row(file)), AGAIN


def agree(said, wanted):
    """The same words and verdicts, and sizes within 2 %: an estimate is not worth an edit."""
    size = r"(\d+)(?= MiB: |, yes|, \*\*no)"
    ours, theirs = re.split(size, said), re.split(size, wanted)
    near = all(
        abs(int(a) - int(b)) <= 0.02 * int(b)
        for a, b in zip(ours[1::2], theirs[1::2], strict=False)
    )
    return near and ours[::2] == theirs[::2]


def test_offline_each_recipe_says_what_it_wanted_and_the_way_out(tmp_path):
    """In a process of its own: the hub's package reads its environment when it is imported."""
    paths = [str(FOLDER / file) for file in RECIPES]
    ran = subprocess.run(
        [sys.executable, "-c", EXPORT_ALL, str(tmp_path / "bundle"), *paths],
        env=os.environ | {"HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"},
        cwd=ROOT,
        stderr=subprocess.PIPE,
        timeout=120,
        check=True,
    )
    lines = iter(ran.stderr.decode().splitlines())
    for path, file in zip(paths, RECIPES, strict=True):
        source = read_recipe(FOLDER / file).model.source
        assert next(lines) == f"{path} names `{source}`: from the hub or its cache here"
        error = next(lines)
        assert f"`{source}` is no local folder, and the hub cannot be reached" in error
        assert f"hf download {source} --local-dir FOLDER" in error
        assert "--model FOLDER" in error
        assert next(lines) == "2"
    assert not (tmp_path / "bundle").exists()
