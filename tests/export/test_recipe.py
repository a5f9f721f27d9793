"""Recipes are checked whole, and each error says what is known or both numbers."""

import pytest

from edgeformer.errors import EdgeformerError
from edgeformer.export.gate import Gate
from edgeformer.export.reading import Texts
from edgeformer.export.recipe import preset_recipe, read_recipe, source_recipe

HEAD = 'name = "x"\n'
MODEL = HEAD + '[model]\npreset = "nano-start"\n'


def written(folder, text):
    path = folder / "r.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_every_key_is_read(tmp_path):
    text = """
    name = "n.1_x-y"
    target = "cpu"
    license = "CC0"
    [model]
    checkpoint = "models/m"
    [graph]
    capacity = 40
    chunk = 8
    [sampling]
    temperature = 1
    top_k = 40
    top_p = 0.9
    min_p = 0.1
    typical_p = 0.7
    repetition_penalty = 1.1
    no_repeat_ngram_size = 3
    [golden]
    prompt = "It is"
    [quality]
    text = "texts/held-out.txt"
    tokens = 500
    max_loss = 0.5
    """
    recipe = read_recipe(written(tmp_path, text))
    assert (recipe.name, recipe.target, recipe.license) == ("n.1_x-y", "cpu", "CC0")
    assert recipe.model.checkpoint == str(tmp_path / "models/m"), "relative to the recipe"
    assert (recipe.graph.capacity, recipe.graph.chunk) == (40, 8)
    assert recipe.sampling.temperature == 1.0
    assert isinstance(recipe.sampling.temperature, float)
    assert (recipe.sampling.top_k, recipe.sampling.top_p) == (40, 0.9)
    assert recipe.sampling.over({"top_k": 7}) == (1.0, 40, 0.9, 0.1, 0.7, 1.1, 3)
    assert recipe.golden.prompt == "It is"
    assert recipe.quality.texts == Texts(tmp_path / "texts/held-out.txt", None, 500)
    assert recipe.quality.gate(True) == Gate(0.5, None, None, True)


def test_defaults_are_greedy_and_as_large_as_the_model(tmp_path):
    recipe = read_recipe(written(tmp_path, MODEL))
    assert recipe == preset_recipe("nano-start").__class__("x", recipe.model)
    assert (recipe.graph.capacity, recipe.graph.chunk) == (None, None)
    assert recipe.sampling.over({}) == (0.0, 0, 1.0, 0.0, 1.0, 1.0, 0)
    assert recipe.target == "jetson-nano"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", ["lacks required keys", "name", "model"]),
        (HEAD, ["lacks required keys: model"]),
        (MODEL + "[quality]\nmax_kl = -1.0\n", ["max_kl is -1.0", "at least 0"]),
        (MODEL + "[quality]\ntokens = 3\n", ["tokens is 3", "at least 64"]),
        ("block = 48\n" + MODEL, ["block is 48", "32 or 64"]),
        (MODEL + "[grap]\n", ["unknown keys: 'grap'", "golden, graph"]),
        (MODEL + "[graph]\ncapasity = 3\n", ["unknown keys: 'capasity'", "capacity, chunk"]),
        (MODEL + "[graph]\ncapacity = 3.5\n", ["[graph]: capacity is 3.5", "int"]),
        (MODEL + "[graph]\ncapacity = true\n", ["[graph]: capacity is True"]),
        (MODEL + "[sampling]\ntop_p = 0\n", ["top_p is 0.0", "above 0 and at most 1"]),
        (MODEL + "[sampling]\ntemperature = -1\n", ["temperature is -1.0", "from 0 to 100"]),
        (MODEL + "[sampling]\ntemperature = nan\n", ["temperature is nan", "expected"]),
        (MODEL + "[sampling]\ntop_k = -3\n", ["top_k is -3"]),
        (MODEL + "[sampling]\nseed = 3\n", ["unknown keys: 'seed'"]),
        (MODEL + "[sampling]\nrepetition_penalty = 0\n", ["[sampling] repetition_penalty is 0"]),
        (MODEL + '[golden]\nprompt = "a"\nprompt_ids = [1]\n', ["both prompt and prompt_ids"]),
        (MODEL + '[golden]\nprompt_ids = ["a"]\n', ["prompt_ids is 'a'"]),
        (HEAD + "[model]\n", ["needs one of the keys checkpoint, source and preset; it has none"]),
        (HEAD + '[model]\npreset = "a"\ncheckpoint = "b"\n', ["it has checkpoint and preset"]),
        (HEAD + '[model]\ncheckpoint = "b"\nseed = 4\n', ["seed 4", "remove seed"]),
        ('name = "../up"\n[model]\npreset = "a"\n', ["name is '../up'"]),
        (HEAD + 'target = "nano"\n[model]\npreset = "a"\n', ["target is 'nano'", "'jetson-nano'"]),
        ("name = \n", ["is not TOML"]),
        ('name = "a"\nname = "b"\n', ["is not TOML"]),
        ("a = " + "[" * 5000, ["is not TOML"]),
    ],
)
def test_a_wrong_recipe_is_refused_with_the_fact(text, parts, tmp_path):
    path = written(tmp_path, text)
    with pytest.raises(EdgeformerError) as caught:
        read_recipe(path)
    message = str(caught.value)
    assert str(path) in message
    for part in parts:
        assert part in message
    assert caught.value.exit_code == 2


def test_a_recipe_of_bytes_or_none_at_all_is_refused(tmp_path):
    path = tmp_path / "r.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(EdgeformerError, match="is not TOML"):
        read_recipe(path)
    with pytest.raises(EdgeformerError, match=r"cannot read recipe `.*no\.toml`: No such file"):
        read_recipe(tmp_path / "no.toml")


def test_a_checkpoint_without_a_recipe_is_named_after_its_folder(tmp_path):
    folder = tmp_path / "my model (2)"
    folder.mkdir()
    assert source_recipe(folder).name == "my-model-2-"
