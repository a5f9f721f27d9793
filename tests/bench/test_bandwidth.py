"""The share of the bandwidth that a token takes: the arithmetic, and what has none."""

import pytest

from edgeformer.bench.bandwidth import Bandwidth
from edgeformer.bench.cases import Asked, cases_of, settings_of
from edgeformer.bundle import Bundle
from edgeformer.speed.costs import Steps
from tests import bundles


@pytest.fixture
def bandwidth():
    """Of two bundles on one thread, and of an engine."""
    opened = [Bundle.open(bundles.ROPE), Bundle.open(bundles.BLOCKS)]
    cases = cases_of(opened, ["ort"], 1)
    cases.append(cases[0]._replace(name="engine", backend="trt"))
    return Bandwidth(cases, settings_of(Asked(new_tokens=8), cases))


def test_nothing_is_told_before_the_probe(bandwidth):
    assert bandwidth.told() is None
    assert bandwidth.share(0, 0.001) is None


def test_the_share_is_bytes_of_a_token_by_its_time_and_the_bandwidth_at_that_size(bandwidth):
    bandwidth.probe()
    bandwidth.probe()
    told = bandwidth.told()
    size = Steps(Bundle.open(bundles.ROPE), "fp32", True).decode(20).bytes
    assert (told["working_set_bytes"], told["threads"]) == (size, 1)  # the larger of the two
    assert 1e8 < told["at_start"] < 1e12 and 1e8 < told["at_end"] < 1e12
    middle = (told["at_start"] + told["at_end"]) / 2
    assert bandwidth.share(0, 0.001) == pytest.approx(size / 0.001 / middle)
    assert bandwidth.share(0, 0.002) == pytest.approx(bandwidth.share(0, 0.001) / 2)


def test_an_engine_has_no_share_of_what_the_cpu_reads(bandwidth):
    bandwidth.probe()
    assert bandwidth.share(2, 0.001) is None
