"""What a manifest says of quality, and of a dialect that runs in one place alone."""

import pytest

from edgeformer.errors import BundleError
from edgeformer.manifest import parse_manifest
from tests import bundles
from tests.test_bundle import DELETE, changed

REFUSED_FIGURES = [
    (["target"], "jetson-orin-nano", "it is for cpu alone"),
    (["dialect"], "portable", "the graph step stand in dialect ort"),
    (["golden", "limits"], {}, "none for n8"),
    (["quality", "tokens"], 0, "tokens"),
    (["quality", "text", "sha256"], "0", "sha256"),
    (["quality", "precisions", "n8", "perplexity"], "good", "perplexity"),
    (["quality", "precisions", "n8", "kl"], -1, "kl"),
    (["quality", "precisions", "n8", "top1"], 1.5, "top1"),
    (["quality", "precisions", "n8", "allowed"], 0, "allowed"),
    (["quality", "precisions", "n8", "thresholds", "loss"], DELETE, "loss"),
    (["quality", "precisions"], [], "precisions"),
    (["quality", "precisions"], {}, "precisions is empty"),
    (["quality", "perplexity"], 0, "perplexity"),
    (["quality"], None, "quality says nothing of n8"),
]


@pytest.mark.parametrize("path, value, named", REFUSED_FIGURES)
def test_figures_of_quality_that_cannot_be_are_refused(path, value, named):
    data = bundles.read_json(bundles.BLOCKS)
    changed(path, value)(data)
    with pytest.raises(BundleError) as caught:
        parse_manifest(data)
    assert named in str(caught.value)
