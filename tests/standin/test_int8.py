"""A bundle of quantized graphs, exported on the spot, built as INT8 and run through bindings."""

import os

import pytest

from edgeformer.backends import open_backend
from edgeformer.bench.board.document import write_report
from edgeformer.bench.cases import Asked as bench_asked
from edgeformer.bundle import Bundle
from edgeformer.engines.building import build_engines
from edgeformer.engines.here import probe
from edgeformer.engines.wanted import Asked
from edgeformer.errors import EdgeformerError
from edgeformer.generation.golden import golden_run
from tests import bundles
from tests.standin import libraries
from tests.standin.arithmetic import compute_built, execute
from tests.standin.build_verb import FAULTS, Calls
from tests.standin.conftest import FOLDER, RELEASE

TYPED = RELEASE.startswith("11.")  # there, engines have the types of their graphs
ORIN = {"EDGEFORMER_STANDIN_GPU": "87", FAULTS: "int8=1"}
pytestmark = [
    pytest.mark.skipif(libraries.PYTHON != "host", reason="the exporter is of the host half"),
    pytest.mark.skipif(RELEASE == libraries.AS_821, reason="no board with INT8 has TensorRT 8.2"),
]


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    from edgeformer.export.build import export_decoder
    from edgeformer.export.gate import Gate
    from tests.nn.choices import choice_decoder

    folder = tmp_path_factory.mktemp("int8") / "bundle"
    made = export_decoder(
        choice_decoder("tied-head-bias"),
        folder,
        name="tiny",
        target="jetson-orin-nano",
        precision="int8-qdq",
        gate=Gate(9.0, 9.0, 0.0),  # a random model's distributions are flat
    )
    return str(made.path)


@pytest.fixture
def orin(monkeypatch, standin):
    """This process and its children find a GPU with INT8."""
    for name, value in libraries.environment(RELEASE, FOLDER, **ORIN).items():
        monkeypatch.setenv(name, value)
    standin.set_capability(87)
    yield probe(lambda line: None)
    standin.set_capability(53)


@pytest.mark.parametrize("layout", ["split", "shared"])
def test_int8_engines_stay_inside_the_bundles_limits(layout, exported, orin, standin, tmp_path):
    standin.set_executor(execute)
    bundle = Bundle.open(bundles.copied(exported, tmp_path))
    asked = Asked("int8", (bundle.manifest.capacity,), (256,), ())
    made = build_engines(bundle, orin, asked, (layout,), 4 << 30, False, lambda line: None)
    engines = made.engines
    assert (engines.precision, engines.layout) == ("int8", layout)
    assert engines.cache_dtype == ("float32" if TYPED else "float16")
    calls = Calls(bundle, engines, "prefill")
    half = {"FP16", "INT8", "OBEY_PRECISION_CONSTRAINTS"}
    assert calls.flags & half == (set() if TYPED else half)
    compute_built(bundle, engines)
    limits = bundle.manifest.golden.limits["int8"]
    with open_backend(bundle, "trt") as backend:
        assert backend.precision == "int8"
        found = golden_run(backend, bundle.manifest)
    assert found.beyond(limits) is None
    assert found.largest_kl > 1e-6, "nothing was quantized"


def test_no_other_engine_comes_from_quantized_graphs(exported, orin, tmp_path):
    path = bundles.copied(exported, tmp_path)
    bundle = Bundle.open(path)
    asked = Asked("fp16", (bundle.manifest.capacity,), (256,), ())
    with pytest.raises(EdgeformerError, match="--precision int8 can be built from them"):
        build_engines(bundle, orin, asked, ("split",), 4 << 30, False, lambda line: None)
    assert not os.path.isdir(os.path.join(path, "engines"))


def reported(path, folder):
    """The entry of the bundle in a report that this machine's stand-ins make of it."""
    asked = bench_asked(rounds=2, new_tokens=4)
    report = write_report([path], asked, str(folder), ["bench"], lambda line: None)
    return report["bundles"][0]


def test_a_boards_report_builds_checks_and_measures_int8(exported, orin, tmp_path, monkeypatch):
    path = bundles.copied(exported, tmp_path)
    monkeypatch.setenv(libraries.COMPUTE, path)
    bundle = reported(path, tmp_path / "report")
    assert [(e["precision"], e["layout"]) for e in bundle["engines"]] == [
        ("int8", "split"),
        ("int8", "shared"),
    ]
    assert [check["run"] for check in bundle["checks"]] == ["ort", "int8-split", "int8-shared"]
    assert all(check["passed"] for check in bundle["checks"])
    assert [case["precision"] for case in bundle["bench"]["cases"]][1:] == ["int8", "int8"]


def test_a_nanos_report_says_why_it_has_no_int8_and_measures_its_cpu(
    exported, standin, tmp_path, monkeypatch
):
    for name, value in libraries.environment(RELEASE, FOLDER).items():
        monkeypatch.setenv(name, value)
    bundle = reported(bundles.copied(exported, tmp_path), tmp_path / "report")
    assert [engine["key"] for engine in bundle["engines"]] == [None, None]
    assert all("has no INT8" in engine["error"] for engine in bundle["engines"])
    assert [case["backend"] for case in bundle["bench"]["cases"]] == ["ort"]
