"""The committed bundles of the device tests are of the kind that the exporter makes today."""

import json
from collections import Counter

import onnx
import pytest

from tests.export.make_bundles import DISTINCT, MODELS, make


def manifest_and_operators(path):
    """What device code can tell apart: names of nodes, random numbers and what each CPU rounds in
    its own way are left out."""
    data = json.loads((path / "manifest.json").read_text("utf-8"))
    del data["producer"], data["golden"], data["source"]
    data["files"] = sorted(data["files"])
    if data["quality"] is not None:
        rows = data["quality"]["precisions"]
        data["quality"] = {name: sorted(row) for name, row in rows.items()}, sorted(data["quality"])
    for kind, graph in data["graphs"].items():
        model = onnx.load(path / graph["file"], load_external_data=False)
        data[kind] = Counter(node.op_type for node in model.graph.node)
    return data


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.name)
def test_a_committed_bundle_is_of_the_kind_that_the_exporter_makes(path, tmp_path):
    made = make(path, tmp_path / "bundle")
    assert made.golden.distinct >= DISTINCT
    fresh, committed = manifest_and_operators(tmp_path / "bundle"), manifest_and_operators(path)
    assert fresh == committed, "run: python -m tests.export.make_bundles"


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.name)
def test_a_committed_bundle_is_small(path):
    assert sum(file.stat().st_size for file in path.iterdir()) < 220_000
