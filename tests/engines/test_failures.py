"""How a build ended, told to a user; and which workspace comes next."""

import pytest

from edgeformer.engines.attempt import Ended
from edgeformer.engines.building import _next_workspaces
from edgeformer.engines.failures import _FACTS, SHOWN, Tried, explained, kind_of

TRIED = Tried("decode.onnx", [256, 128], 900 << 20)


def ended(status=0, kind="builder", log=(), **answer):
    return Ended(status, dict(answer, failed=kind) if kind else {}, tuple(log), 700 << 20, 65.0)


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("Could not find any implementation for node {ForeignNode[a...b]}.", "workspace"),
        ("Tactic Device request: 538MB Available: 166MB. Device memory is", "memory"),
        ("[virtualMemoryBuffer.cpp::resizePhysical] out of memory", "memory"),
        ("std::bad_alloc", "memory"),
        ("CUDA initialization failure with error: 35", "driver"),
        ("Networks with QuantizeLayer/DequantizeLayer layers require hardware with Int8", "int8"),
        ("TensorRT was linked against cuDNN 8.2.1 but loaded cuDNN 8.0.0", "version"),
        ("something else", "builder"),
    ],
)
def test_what_tensorrt_says_tells_the_kind(line, kind):
    assert kind_of(ended(log=["before", line, "after"])) == kind


def test_a_tactic_without_memory_is_told_before_the_missing_kernel_that_follows_from_it():
    log = ["Tactic Device request: 538MB Available: 166MB. x", "Could not find any implementation"]
    assert kind_of(ended(log=log)) == "memory"


def test_signals_come_before_anything_that_was_said():
    assert kind_of(ended(-9, None)) == "killed"
    assert kind_of(ended(-11, None, ["out of memory"])) == "crashed"
    assert kind_of(ended(1, None)) == "lost"


@pytest.mark.parametrize("kind", sorted(_FACTS))
def test_every_explanation_is_whole_and_says_what_to_do(kind):
    status = {"killed": -9, "crashed": -11}.get(kind, 0)
    text = str(explained(ended(status, kind, text="the text"), TRIED))
    assert "{" not in text
    assert any(word in text for word in ("--", "install", "export"))


def test_numbers_of_a_killed_builder():
    text = str(explained(ended(-9, None), TRIED))
    for words in ("700 MiB", "256, 128 MiB", "900 MiB free", "decode.onnx"):
        assert words in text


def test_the_last_lines_of_the_log_follow_and_no_more():
    text = str(explained(ended(log=["line %d" % n for n in range(40)]), TRIED))
    told = text.split("the last that TensorRT said:\n")[1].splitlines()
    assert told == ["  line %d" % n for n in range(40 - SHOWN, 40)]


def test_the_next_workspace_is_larger_for_want_of_a_kernel_and_smaller_for_want_of_memory():
    assert _next_workspaces("workspace", 256, [128, 64, 512]) == [512]
    assert _next_workspaces("memory", 256, [128, 64, 512]) == [128, 64]
    assert _next_workspaces("killed", 128, [64, 512]) == [64]
    assert _next_workspaces("parser", 256, [128, 64, 512]) == []
    assert _next_workspaces("memory", 64, [512]) == []
