"""The one table of versions for boards, and whatever else says them."""

import os
import re

import pytest

from edgeformer.device import board
from edgeformer.device.doctor.pins import KITS, kit_for, requirement
from tests.py36_grammar import ROOT

NANO = KITS[0]


def pinned(name):
    with open(os.path.join(ROOT, "requirements", name), encoding="ascii") as file:
        return dict(re.findall(r"^([\w.-]+)==(\S+)$", file.read(), re.MULTILINE))


def test_the_nano_gets_what_the_device_tests_run_on():
    tested = pinned("constraints-py36.txt")
    assert {n: v for n, v in NANO.packages.items() if n != "tokenizers"}.items() <= tested.items()
    built = pinned("standin-py36.txt")
    assert NANO.pycuda.items() <= built.items()


def test_every_release_with_a_known_jetpack_of_our_targets_has_a_kit():
    for l4t in board.JETPACK:
        assert kit_for(l4t) is not None, l4t
    assert [kit_for(l4t).name for l4t in ("32.7.4", "35.4.1", "36.4.3")] == ["r32", "r35", "r36"]
    for unknown in ("39.2.0", "3.6.0", "32.1.0", "360.1.0", "", None):
        assert kit_for(unknown) is None, unknown


@pytest.mark.parametrize("kit", KITS, ids=[kit.name for kit in KITS])
def test_no_kit_has_the_numpy_that_crashes_or_one_that_onnxruntime_cannot_use(kit):
    numpy = tuple(int(part) for part in kit.packages["numpy"].split("."))
    assert numpy >= (1, 16, 6)
    assert kit.packages["numpy"] != "1.19.5"
    assert next(iter(kit.packages)) == "numpy"  # what is installed first nothing else replaces
    assert list(kit.pycuda)[-1] == "pycuda"


def test_a_requirement_is_pinned_only_where_the_board_is_known():
    assert requirement(NANO, "numpy") == "numpy==1.19.4"
    assert requirement(NANO, "pip") == "pip==21.3.1"
    assert requirement(NANO, "torch") == "torch"
    assert requirement(None, "numpy") == "numpy"


def test_a_python_that_has_llguidance_gets_it_and_an_older_one_needs_none():
    for kit in KITS:
        newer = tuple(int(part) for part in kit.python.split(".")) >= (3, 10)
        assert ("llguidance" in kit.packages) == newer, kit.name
