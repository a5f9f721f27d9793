"""Targets: every fact has its page, every version its parser."""

import re

import pytest

from edgeformer import targets
from edgeformer.errors import EdgeformerError
from edgeformer.manifest import TARGETS as IN_MANIFESTS


def facts(value):
    """Every `Fact` in a tree of records."""
    if isinstance(value, targets.Fact):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from facts(item)
    elif isinstance(value, tuple):
        for item in value:
            yield from facts(item)


ALL = list(facts(targets.TARGETS)) + list(facts(targets.PARSERS))


def test_each_fact_has_an_address_or_says_that_it_has_none():
    assert len(ALL) >= 20
    for fact in ALL:
        assert re.match(r"https://[\w./#-]+\Z", fact.source) or fact.source.startswith(
            targets.NO_PAGE
        ), fact
        assert fact.value > 0
    assert len({fact for fact in ALL if fact.source.startswith(targets.NO_PAGE)}) <= 2
    for target in targets.TARGETS.values():
        if target.compute_capability:
            assert target.compute_source.startswith("https://")
            assert target.release_source.startswith("https://")


def test_targets_are_those_that_a_manifest_may_name():
    assert tuple(targets.TARGETS) == IN_MANIFESTS
    assert all(name == target.name for name, target in targets.TARGETS.items())


def test_what_is_free_of_a_board_is_less_with_a_desktop():
    for target in targets.TARGETS.values():
        for board in target.boards.values():
            assert board.used_headless.value < board.used_desktop.value < board.memory.value
            assert board.bandwidth_seen.value < board.bandwidth_nominal.value


def test_the_nano_has_no_int8_and_says_why():
    nano, _ = targets.target_named("jetson-nano")
    assert nano.precisions == ("fp32", "fp16")
    assert "no INT8" in nano.refused["int8"]
    assert "fp16" in nano.refused["int8"]
    assert "int8" in targets.TARGETS["jetson-orin-nano"].precisions


@pytest.mark.parametrize(
    ("version", "column"),
    [
        ("8.2", "8.2"),
        ("8.2.1.8", "8.2"),
        ("8.4.1.5", "8.2"),
        ("8.5.2", "8.5"),
        ("8.6.2", "8.6"),
        ("9.3", "8.6"),
        ("10", "10.1"),
        ("10.0.1", "10.1"),
        ("10.16.1", "10.1"),
        ("11.4", "10.1"),
    ],
)
def test_a_version_maps_to_the_newest_column_not_newer_than_it(version, column):
    assert targets.parser_for(version).version == column


@pytest.mark.parametrize("version", ["8", "8.0.1", "7.2", "", "ten", "8.2-GA", "8." * 40, "-8.2"])
def test_a_version_that_no_column_serves_is_refused(version):
    with pytest.raises(EdgeformerError):
        targets.parser_for(version)


def test_parsers_are_in_order_and_only_grow():
    for older, newer in zip(targets.PARSERS, targets.PARSERS[1:]):
        assert older.opset.value <= newer.opset.value
        assert older.ir.value <= newer.ir.value
    assert [p.opset.value for p in targets.PARSERS] == [13, 17, 17, 20]


def test_a_target_is_linted_for_the_oldest_tensorrt_that_it_may_have():
    parser = targets.parser_of_target
    assert parser(targets.TARGETS["jetson-nano"]).version == "8.2"
    assert parser(targets.TARGETS["jetson-orin-nano"]).version == "8.5"
    with pytest.raises(EdgeformerError, match="no TensorRT"):
        parser(targets.TARGETS["cpu"])


@pytest.mark.parametrize(
    ("text", "name", "size"),
    [
        ("jetson-nano", "jetson-nano", "4gb"),
        ("jetson-nano-2gb", "jetson-nano", "2gb"),
        ("jetson-orin-nano", "jetson-orin-nano", "8gb"),
        ("jetson-orin-nano-4gb", "jetson-orin-nano", "4gb"),
        ("cpu", "cpu", ""),
    ],
)
def test_a_target_is_named_with_or_without_its_memory(text, name, size):
    target, found = targets.target_named(text)
    assert (target.name, found) == (name, size)


@pytest.mark.parametrize("text", ["", "jetson", "jetson-nano-8gb", "cpu-4gb", "jetson-xavier", "-"])
def test_another_target_is_refused_with_the_known_ones(text):
    with pytest.raises(EdgeformerError, match="jetson-nano-2gb"):
        targets.target_named(text)


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (b"nvidia,p3449-0000-b00+p3448-0002-b00\0nvidia,jetson-nano\0nvidia,tegra210\0", "nano"),
        (b"nvidia,p3768-0000+p3767-0005-super\0nvidia,tegra234\0", "orin-nano"),
        (b"raspberrypi,4-model-b\0brcm,bcm2711\0", ""),
    ],
)
def test_the_board_is_told_by_its_device_tree(content, name, tmp_path):
    (tmp_path / "compatible").write_bytes(content)
    assert targets.this_board(str(tmp_path)) == ("jetson-" + name if name else "")
    assert targets.this_board(str(tmp_path / "missing")) == ""


def test_available_memory_counts_the_page_cache(tmp_path):
    path = tmp_path / "meminfo"
    path.write_text("MemTotal: 4051000 kB\nMemFree:  204800 kB\nMemAvailable:    2662400 kB\n")
    assert targets.memory_available(str(path)) == 2600 << 20
    path.write_text("MemTotal: 4051000 kB\n")
    for where in (path, tmp_path / "missing"):
        with pytest.raises(EdgeformerError, match="--memory"):
            targets.memory_available(str(where))
