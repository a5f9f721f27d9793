"""Which sets of engines cannot be loaded here."""

import os

import pytest

from edgeformer.bundle import Bundle
from edgeformer.engines import fit
from edgeformer.engines.here import Here, foreign_sets, prune
from tests import bundles
from tests.engines.test_record import KEY, record, written

HERE = Here("8.2.1.8", "NVIDIA Tegra X1", "5.3", True, False, False, [])


@pytest.fixture
def bundle(tmp_path):
    return bundles.copied(bundles.ROPE, tmp_path)


def test_a_set_of_this_gpu_and_tensorrt_is_not_foreign(bundle):
    opened = written(bundle, record(bundle))
    assert foreign_sets(opened, HERE) == {}
    prune(opened, HERE, pytest.fail)
    assert os.path.isdir(os.path.join(bundle, "engines", KEY))


@pytest.mark.parametrize(
    "changes",
    [{"tensorrt": "8.0.1"}, {"name": "Orin"}, {"compute_capability": "8.7"}],
)
def test_another_gpu_or_tensorrt_is_foreign(changes, bundle):
    opened = written(bundle, record(bundle))
    found = foreign_sets(opened, HERE._replace(**changes))
    told = "engines/%s was built by TensorRT 8.2.1.8 on NVIDIA Tegra X1 (5.3)" % KEY
    assert found == {KEY: told}


def test_a_set_of_another_export_is_foreign(bundle):
    data = record(bundle)
    data["graphs"]["weights.bin"] = "0" * 64
    opened = written(bundle, data)
    assert "another weights.bin" in foreign_sets(opened, HERE)[KEY]


def test_what_is_being_built_and_folders_without_a_record_are_left_alone(bundle):
    opened = written(bundle, record(bundle))
    folder = os.path.join(bundle, "engines")
    os.rename(os.path.join(folder, KEY), os.path.join(folder, "." + KEY))
    os.mkdir(os.path.join(folder, "mine"))
    assert foreign_sets(opened, HERE) == {}


def test_engines_that_are_there_make_a_new_build_no_cheaper(bundle):
    opened = written(bundle, record(bundle))
    plan = fit.plan_for(opened, "fp16", ("split",), 1 << 40)
    assert plan.needs == fit.plan_for(Bundle.open(bundles.ROPE), "fp16", ("split",), 0).needs
    assert plan.needs.building > 0
