"""Our own graphs, of every choice and family, have no error in any version of the table."""

import onnx
import pytest

from edgeformer.export.lint import ERROR, lint_model
from edgeformer.export.lint.reading import read_model
from edgeformer.nn.families.load import load_decoder
from edgeformer.nn.sources import open_source
from edgeformer.targets import PARSERS
from tests.nn.choices import CHOICES
from tests.nn.families.models import reference
from tests.nn.families.shapes import SHAPES
from tests.rtx.graphs import write_graphs

COLUMNS = ("lint 8.2", "lint 8.5", "lint 8.6", "lint 10")  # of docs/tiers.md: all of PARSERS


def check(path):
    typed = read_model(path)
    for parser in PARSERS:
        found = lint_model(typed, parser)
        assert [f for f in found if f.severity == ERROR] == [], parser.title
        assert "types-unknown" not in {f.rule for f in found}


@pytest.mark.proves("choice", *COLUMNS)
@pytest.mark.parametrize("name", CHOICES)
def test_no_choice_makes_a_graph_that_a_version_refuses(name, bundles):
    for kind in ("prefill", "decode"):
        check(bundles[name].path / f"{kind}.onnx")


@pytest.mark.slow
@pytest.mark.proves("family", *COLUMNS)
@pytest.mark.parametrize("name", SHAPES)
def test_no_family_makes_a_graph_that_a_version_refuses(name, tmp_path):
    reference(name).save_pretrained(tmp_path / "checkpoint")
    graphs = write_graphs(load_decoder(open_source(tmp_path / "checkpoint")), tmp_path / "graphs")
    for graph in graphs.values():
        check(tmp_path / "graphs" / graph.file)


def test_the_same_graphs_with_one_bad_node_are_refused(bundles):
    model = read_model(bundles["gqa"].path / "prefill.onnx")
    softmax = next(node for node in model.graph.node if node.op_type == "Softmax")
    softmax.op_type = "Hardmax"
    found = [f for f in lint_model(model, PARSERS[0]) if f.severity == ERROR]
    assert [(f.rule, f.operator, f.since) for f in found] == [("op-missing", "Hardmax", "10")]
    assert found[0].module.startswith("blocks.0")
    assert isinstance(model, onnx.ModelProto)
