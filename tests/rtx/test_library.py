"""The tier's own footing: what is refused is said, and a crash is one failed build."""

from __future__ import annotations

import pytest

from tests.nn.choices import CHOICES, choice_decoder
from tests.rtx.graphs import shared, split, write_graphs
from tests.rtx.library import Crashed, Refused

SEVERAL = ("gqa", "alibi-gqa", "like-gemma")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rtx") / "gqa"
    return folder, write_graphs(choice_decoder("gqa"), folder)


@pytest.mark.parametrize("name", SEVERAL)
def test_every_engine_of_both_layouts_builds(name, rtx, tmp_path):
    graphs = write_graphs(choice_decoder(name), tmp_path / name)
    capacity = CHOICES[name].max_positions
    for profiles in (split(graphs, capacity, 16), shared(graphs, capacity, 16)):
        for kind, profile in profiles.items():
            path = tmp_path / name / graphs[kind].file
            assert rtx.build(path, graphs[kind], profile).bytes > 1000


def test_a_profile_whose_ends_are_turned_round_is_refused(tiny, rtx):
    folder, graphs = tiny
    profile = shared(graphs, 64, 16)["prefill"]
    turned = {**profile, "token_ids": ([16], [16], [1])}
    with pytest.raises(Refused) as refused:
        rtx.build(folder / "prefill.onnx", graphs["prefill"], turned)
    assert refused.value.kind == "profile"


def test_a_profile_whose_inputs_contradict_each_other_is_refused(tiny, rtx):
    """TensorRT knows that token_ids and positions are of one size."""
    folder, graphs = tiny
    profile = {**shared(graphs, 64, 16)["prefill"], "positions": ([20], [20], [24])}
    with pytest.raises(Refused) as refused:
        rtx.build(folder / "prefill.onnx", graphs["prefill"], profile)
    assert refused.value.kind == "builder"


def test_a_crash_of_the_library_is_one_failure_and_the_next_build_works(tiny, rtx):
    folder, graphs = tiny
    job = (folder / "decode.onnx", graphs["decode"], split(graphs, 64, 16)["decode"])
    rtx.build(*job)
    rtx.child.kill()
    with pytest.raises(Crashed, match="SIGKILL while it built"):
        rtx.build(*job)
    assert rtx.build(*job).layers > 40
