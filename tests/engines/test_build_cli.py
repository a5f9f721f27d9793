"""`build` on a machine without GPU and TensorRT, such as this one; wishes that make no sense."""

import os

import pytest

from edgeformer.__main__ import main
from tests import bundles


def run(capsys, *words):
    status = main(["build", bundles.ROPE, *words])
    out, err = capsys.readouterr()
    assert out == ""
    return status, err


def test_without_gpu_and_tensorrt_it_is_status_2_and_one_paragraph(capfd):
    status, err = run(capfd)
    assert status == 2
    assert err.count("\n") == 1
    assert err.startswith("error: engines cannot be built on this machine: it has no ")
    for words in ("tensorrt", "JetPack", "pip install pycuda", "--backend ort"):
        assert words in err
    assert not os.path.exists(os.path.join(bundles.ROPE, "engines"))


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--precision", "fp8"], "--precision is 'fp8'; say fp16, fp32 or int8"),
        (["--workspace", "0"], "--workspace is 0; say 1 to 65536 MiB"),
        (["--tactics", "cu blas"], "--tactics is 'cu blas'"),
        (["--past-rows", "7"], "--past-rows is 7"),
        (["--memory", "0"], "--memory is 0; say 1 to"),
    ],
)
def test_a_wish_that_makes_no_sense_is_refused_before_tensorrt_is_looked_for(words, told, capsys):
    status, err = run(capsys, *words)
    assert status == 2
    assert told in err
    assert "on this machine" not in err
