"""Which engines there are, which are compared, and what is asked of who lacks one."""

import re

import pytest

from benchmarks.peers.engines import parse_engines, parse_pairs
from benchmarks.peers.environments import REQUIREMENTS, Environments, names
from edgeformer.errors import EdgeformerError
from tests.benchmarks.peers.conftest import BOTH


def test_what_is_not_installed_is_refused_with_the_command(tmp_path):
    with pytest.raises(EdgeformerError) as refused:
        Environments(tmp_path).require(["edgeformer", "llama.cpp", "transformers"])
    assert "python -m benchmarks.peers install llama.cpp transformers" in str(refused.value)


def test_other_pins_than_the_files_count_as_not_installed(installed):
    installed.require(["transformers"])
    mark = installed.folder / "transformers.installed"
    pins = mark.read_text()
    mark.write_text(pins.replace("torch==", "torch==0."))
    try:
        assert installed.lacks("transformers")
    finally:
        mark.write_text(pins)


def test_every_requirement_is_pinned():
    assert names() == [
        "ctranslate2",
        "llama.cpp",
        "onnxruntime-genai",
        "optimum-onnx",
        "transformers",
    ]
    for name in names():
        for line in (REQUIREMENTS / f"{name}.txt").read_text().splitlines():
            assert re.fullmatch(r"[\w.-]+==[\w.]+", line), line


@pytest.mark.parametrize(
    "text, said",
    [
        ("llama.cpp:q9", "known: edgeformer:fp32"),
        ("llama", "known: edgeformer:fp32"),
        ("llama.cpp:f32@x", "only edgeformer takes a folder"),
        ("edgeformer:n8,edgeformer:n8", "more than once"),
    ],
)
def test_engines_that_are_no_engines_are_refused(text, said):
    with pytest.raises(EdgeformerError, match=said):
        parse_engines(text)


def test_ours_stand_beside_those_with_as_many_bits():
    chosen = parse_engines("edgeformer:n4,edgeformer:fp32,llama.cpp:q4_1,llama.cpp:f32")
    pairs = [[c.name for c in pair] for pair in parse_pairs(None, chosen)]
    assert pairs == [["edgeformer:n4", "llama.cpp:q4_1"], ["edgeformer:fp32", "llama.cpp:f32"]]
    (pair,) = parse_pairs("llama.cpp:q4_1//edgeformer:fp32", chosen)
    assert [c.name for c in pair] == ["llama.cpp:q4_1", "edgeformer:fp32"]
    with pytest.raises(EdgeformerError, match="write A//B"):
        parse_pairs("llama.cpp:q4_1//llama.cpp:q8_0", parse_engines(BOTH))
