"""Whether a build fits, in words; and a disk that is too small."""

import os

import pytest

from edgeformer.bundle import Bundle
from edgeformer.engines import fit
from edgeformer.engines.plan import Change
from edgeformer.errors import EdgeformerError
from tests import bundles

MIB = 1 << 20


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"layout": "shared"}, "it fits with --layout shared"),
        ({"capacity": 64, "chunk": 8}, "a bundle that was exported with --capacity 64 --chunk 8"),
        ({"embedding": "host"}, "a bundle that was exported with --embedding host"),
    ],
)
def test_the_change_that_makes_it_fit_is_told_as_options(changes, told):
    plan = fit.plan_for(Bundle.open(bundles.ROPE), "fp32", ("split",), 100 * MIB)
    assert not plan.fits_running
    case = plan.case._replace(**changes)
    plan = plan._replace(change=Change("", case, plan.needs), change_is_for="both")
    text = fit.why_not(plan)
    assert "layout split needs %.0f MiB to run (predicted)" % (plan.needs.largest / MIB) in text
    assert "100 MiB are free" in text
    assert text.endswith(told)


def test_building_is_short():
    bundle = Bundle.open(bundles.ROPE)
    needs = fit.plan_for(bundle, "fp16", ("shared",), 1 << 40).needs
    plan = fit.plan_for(bundle, "fp16", ("shared",), needs.largest)
    assert plan.fits_running
    text = fit.why_not(plan)
    assert "%.0f MiB to be built (predicted)" % (needs.building / MIB) in text
    assert "stop the desktop" in text


def test_a_disk_that_is_too_small_is_told_before_the_build(monkeypatch):
    plan = fit.plan_for(Bundle.open(bundles.ROPE), "fp32", ("split",), 1 << 40)
    real = os.statvfs("/")

    class Small:
        f_bavail, f_frsize = 1, real.f_frsize

    fit.check_disk("/", plan)
    monkeypatch.setattr(os, "statvfs", lambda folder: Small)
    with pytest.raises(EdgeformerError, match=r"engines need about .* MiB on the disk of /"):
        fit.check_disk("/", plan)
