"""Our own graphs, of every choice of a config, have no error in any version of the table."""

import onnx
import pytest

from edgeformer.export.lint import ERROR, lint_model
from edgeformer.export.lint.reading import read_model
from edgeformer.targets import PARSERS
from tests.nn.choices import CHOICES


@pytest.mark.parametrize("name", CHOICES)
@pytest.mark.parametrize("kind", ["prefill", "decode"])
def test_no_choice_makes_a_graph_that_a_version_refuses(name, kind, bundles):
    typed = read_model(bundles[name].path / f"{kind}.onnx")
    for parser in PARSERS:
        found = lint_model(typed, parser)
        assert [f for f in found if f.severity == ERROR] == [], parser.title
        assert "types-unknown" not in {f.rule for f in found}


def test_the_same_graphs_with_one_bad_node_are_refused(bundles):
    model = read_model(bundles["gqa"].path / "prefill.onnx")
    softmax = next(node for node in model.graph.node if node.op_type == "Softmax")
    softmax.op_type = "Hardmax"
    found = [f for f in lint_model(model, PARSERS[0]) if f.severity == ERROR]
    assert [(f.rule, f.operator, f.since) for f in found] == [("op-missing", "Hardmax", "10")]
    assert found[0].module.startswith("blocks.0")
    assert isinstance(model, onnx.ModelProto)
