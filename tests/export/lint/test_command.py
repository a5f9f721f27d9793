"""The command: what it prints, its status, and files that nobody vouches for."""

import json
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from edgeformer.export.__main__ import main
from tests.export.lint.cases import norm, quantize
from tests.export.lint.make_dynamo import PATH
from tests.export.lint.nodes import F32, model, node

GOOD = model(node("Relu", "x"), inputs={"x": F32})


@pytest.fixture
def lint(tmp_path, capsys):
    """lint(model or bytes, *options) -> (status, stdout, stderr)"""

    def run(made, *options):
        path = tmp_path / "model.onnx"
        path.write_bytes(made if isinstance(made, bytes) else made.SerializeToString())
        status = main(["lint", str(path), *options])
        return (status, *capsys.readouterr())

    return run


def test_a_clean_file_is_status_0(lint):
    status, out, err = lint(GOOD)
    assert (status, err) == (0, "")
    assert "opset 13, IR 8, 1 nodes; against TensorRT 8.2, jetson-nano" in out
    assert "no error" in out


def test_an_error_is_status_1_with_all_that_a_person_needs(lint):
    made = norm("y", opset=17)
    made.graph.node[0].name = "/model/layers.0/ln_1/LayerNormalization"
    status, out, err = lint(made, "--tensorrt", "8.5")
    assert (status, err) == (1, "")
    for part in (
        "error op-missing LayerNormalization x 1: not in TensorRT 8.5",
        "instead: export with opset 13 to 16",
        "first in TensorRT 8.6",
        "at model.layers.0.ln_1 [/model/layers.0/ln_1/LayerNormalization]",
    ):
        assert part in out
    assert lint(made, "--tensorrt", "8.6")[0] == 0


def test_many_findings_of_a_kind_are_one_group(lint):
    nodes = [node("Mod", ["x", "x"], [f"y{i}"], f"n{i}") for i in range(500)]
    status, out, _ = lint(model(*nodes, inputs={"x": F32}, outputs=("y0",)))
    assert status == 1
    assert "Mod x 500" in out
    assert "n0, n1, n2 and 497 more" in out
    assert len(out.splitlines()) < 10


def test_json_has_every_finding(lint):
    status, out, _ = lint(norm("y", opset=17), "--json")
    document = json.loads(out)
    assert status == 1
    assert document["tensorrt"] == "8.2"
    assert document["target"] == "jetson-nano"
    assert document["errors"] == len([f for f in document["findings"] if f["severity"] == "error"])
    assert {f["rule"] for f in document["findings"]} == {"opset", "op-missing"}
    assert set(document["findings"][0]) == {
        *("rule", "severity", "operator", "node", "module", "fact", "rewrite", "since")
    }


def test_a_target_stands_for_its_tensorrt_and_its_hardware(lint):
    assert lint(quantize(), "--target", "jetson-nano")[0] == 1
    status, out, _ = lint(quantize(), "--target", "jetson-orin-nano")
    assert status == 0
    assert "TensorRT 8.5, jetson-orin-nano" in out


@pytest.mark.parametrize(
    "options", [["--tensorrt", "7.2"], ["--target", "cpu"], ["--target", "xavier"]]
)
def test_an_unknown_tensorrt_or_target_is_status_2(options, lint):
    status, out, err = lint(GOOD, *options)
    assert (status, out) == (2, "")
    assert err.startswith("error: ")


def deep(depth):
    """Protobuf bytes of graphs inside graphs, made without protobuf's own limit."""

    def field(number, content):
        size, length = len(content), b""
        while size > 127:
            length, size = length + bytes([size & 127 | 128]), size >> 7
        return bytes([number << 3 | 2]) + length + bytes([size]) + content

    body = field(1, field(4, b"Relu"))
    for _ in range(depth):
        body = field(1, field(4, b"If") + field(5, field(6, body)))
    return b"\x08\x08" + b"\x42\x02\x10\x0d" + field(7, body)


WHOLE = PATH.read_bytes()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0" * 100,
        b"not an onnx file at all, just text",
        b"PK\x03\x04" + bytes(range(256)),
        WHOLE[: len(WHOLE) // 2],
        WHOLE[:10],
        WHOLE[100:],
        deep(500),
        onnx.ModelProto(ir_version=8).SerializeToString(),
    ],
    ids=["empty", "zeros", "text", "zip", "half", "start", "end", "deep", "no-graph"],
)
def test_what_is_no_onnx_file_is_status_2_and_one_line(content, lint):
    status, out, err = lint(content)
    assert (status, out) == (2, "")
    assert err.startswith("error: ")
    assert len(err.splitlines()) == 1


def test_a_missing_file_and_a_folder_are_status_2(tmp_path, capsys):
    for path in (tmp_path / "missing.onnx", tmp_path):
        assert main(["lint", str(path)]) == 2
        assert "cannot be read" in capsys.readouterr().err


def test_a_file_over_two_gib_is_refused_by_its_size(tmp_path, capsys):
    path = tmp_path / "huge.onnx"
    with open(path, "wb") as file:
        file.truncate(2**31)  # a hole: nothing is stored
    assert main(["lint", str(path)]) == 2
    assert "2147483648 bytes" in capsys.readouterr().err


@pytest.mark.parametrize("seed", range(25))
def test_damaged_files_end_in_a_status_and_no_traceback(seed, lint):
    chooser = np.random.default_rng(seed)
    damaged = bytearray(WHOLE)
    for _ in range(int(chooser.integers(1, 40))):
        damaged[int(chooser.integers(len(damaged)))] = int(chooser.integers(256))
    assert lint(bytes(damaged))[0] in (0, 1, 2)


def test_graphs_nested_as_deeply_as_protobuf_allows_are_walked(lint):
    status, out, _ = lint(deep(20))
    assert status == 1
    assert "If x 20" in out


def test_huge_sizes_and_lying_tensors_are_no_obstacle(lint):
    made = model(node("TopK", "xk", "yi"), inputs={"x": F32})
    made.graph.initializer.add(name="k", data_type=TensorProto.INT64, dims=[2**62, 2**62])
    made.graph.initializer.add(name="z", data_type=99, dims=[-5])
    made.graph.initializer.add(name="r", data_type=TensorProto.INT64, dims=[7], raw_data=b"123")
    made.graph.node.append(node("Squeeze", "xr", "s", "squeeze"))
    made.graph.node.append(node("Add", "xz", "t", "add"))
    assert lint(made)[0] in (0, 1)


def test_names_cannot_move_the_terminals_cursor(lint):
    made = model(node("Mod", "xx", name="\x1b[2J\r" + "n" * 5000), inputs={"x": F32})
    out = lint(made)[1]
    assert "\x1b" not in out
    assert max(map(len, out.splitlines())) < 400


def test_lint_needs_no_torch(tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(GOOD.SerializeToString())
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from edgeformer.export.__main__ import main; sys.exit(main(['lint', sys.argv[1]]))"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
