"""What is measured is settled, or refused with its numbers, before anything runs."""

import pytest

from edgeformer.bench.cases import Asked, cases_of, settings_of
from edgeformer.bundle import Bundle
from edgeformer.errors import EdgeformerError
from tests import bundles


def cases(*paths, **options):
    opened = [Bundle.open(path) for path in paths or (bundles.ROPE,)]
    return cases_of(opened, options.get("backends", ["auto"]), options.get("threads"))


def settled(*paths, **asked):
    return settings_of(Asked(**asked), cases(*paths))


def refused(*paths, **asked):
    with pytest.raises(EdgeformerError) as caught:
        settled(*paths, **asked)
    return str(caught.value)


def test_by_default_the_usual_lengths_that_fit_the_smallest_bundle():
    found = settled(bundles.ROPE)  # capacity 100
    assert (found.prompt_tokens, found.rows, found.new_tokens) == ((16, 64), (64,), 64)
    found = settled(bundles.ROPE, bundles.LEARNED)  # 100 and 32
    assert (found.prompt_tokens, found.rows, found.new_tokens) == ((16,), (64,), 17)


def test_a_prompt_longer_than_the_capacity_is_refused_with_both():
    said = refused(bundles.ROPE, prompt_tokens=[16, 101])
    assert "--prompt-tokens has 101" in said and "1 to 100" in said


def test_new_tokens_need_room_behind_the_prompt_in_the_smallest_bundle():
    assert settled(bundles.ROPE, prompt_tokens=[90], new_tokens=11).new_tokens == 11
    said = refused(bundles.ROPE, prompt_tokens=[90], new_tokens=12)
    assert "--new-tokens is 12" in said and "2 to 11 (capacity 100)" in said
    assert "tiny-learned" in refused(bundles.ROPE, bundles.LEARNED, new_tokens=64)
    assert "--new-tokens is 1" in refused(new_tokens=1)  # no interval between tokens


def test_rows_in_use_leave_a_row_for_the_step():
    assert settled(bundles.LEARNED).rows == (16,)
    assert settled(rows=[99, 1, 1]).rows == (1, 99)
    assert "--rows has 100" in refused(rows=[100])


@pytest.mark.parametrize("asked", [{"rounds": 0}, {"seed": -1}, {"rows": [0]}, {"rows": []}])
def test_numbers_that_make_no_sense_are_refused(asked):
    assert "--" + next(iter(asked)) in refused(**asked)


def test_names_say_model_precision_and_backend_and_are_told_apart(tmp_path):
    copy = bundles.copied(bundles.ROPE, tmp_path)
    assert [case.name for case in cases(bundles.ROPE, bundles.BLOCKS)] == [
        "tiny-rope fp32 ort",
        "tiny-blocks n8 ort",
    ]
    assert [case.name for case in cases(bundles.ROPE, copy)] == [
        "tiny-rope fp32 ort (tiny-rope)",
        "tiny-rope fp32 ort (bundle)",
    ]
    assert [case.name for case in cases(bundles.ROPE, bundles.ROPE)] == [
        "tiny-rope fp32 ort #1",
        "tiny-rope fp32 ort #2",
    ]


def test_every_bundle_runs_on_every_backend():
    found = cases(bundles.ROPE, bundles.HALF, backends=["ort", "trt"], threads=1)
    assert [(case.model["name"], case.backend) for case in found] == [
        ("tiny-rope", "ort"),
        ("tiny-rope", "trt"),
        ("tiny-half", "ort"),
        ("tiny-half", "trt"),
    ]
    with pytest.raises(EdgeformerError, match="no backend is called 'cuda'"):
        cases(backends=["cuda"])


def test_a_model_is_told_with_its_quality_and_a_hash_of_all_its_files():
    (case,) = cases(bundles.BLOCKS)
    table = case.model["quality"]
    assert 1 < table["reference_perplexity"] < 1e4 and 0 < table["kl"] < 1
    assert case.model["weights_bytes"] < case.model["files_bytes"]
    assert len(case.model["sha256"]) == 64
    assert case.model["sha256"] != cases(bundles.ROPE)[0].model["sha256"]


def test_side_by_side_needs_two_cases_and_the_memory_of_all_of_them():
    assert settled(bundles.ROPE, bundles.LEARNED, side_by_side=True).side_by_side
    assert "here is one case" in refused(bundles.ROPE, side_by_side=True)
    large = []
    for case in cases(bundles.ROPE, bundles.LEARNED):
        large.append(case._replace(model=dict(case.model, weights_bytes=10**15)))
    with pytest.raises(EdgeformerError) as caught:
        settings_of(Asked(side_by_side=True), large)
    said = str(caught.value)
    assert "2000000000 MB of weights and at least 80 MB" in said and "MB are available" in said
    assert "leave out --side-by-side" in said
    assert settings_of(Asked(), large).side_by_side is False
