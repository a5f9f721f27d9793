"""`build` drives the real bindings of each release, and what it builds gives the golden tokens."""

import os
import re
import subprocess
import sys

import pytest

from edgeformer.backends import open_backend
from edgeformer.engines import memory
from edgeformer.engines.building import build_engines
from edgeformer.engines.fit import plan_for
from edgeformer.engines.graphfile import read_graph
from edgeformer.engines.here import probe
from edgeformer.engines.needs import LAYOUTS
from edgeformer.engines.wanted import Asked
from edgeformer.generation.golden import golden_mismatches, golden_run
from tests import bundles
from tests.standin import libraries
from tests.standin.arithmetic import compute_built, execute
from tests.standin.build_verb import FAULTS, Calls, build, leftovers, only_set
from tests.standin.conftest import FOLDER, RELEASE

TYPED = RELEASE.startswith("11.")  # there, engines have the types of their graphs
BY_POOL = RELEASE != libraries.AS_821
ADDED = ("(Unnamed Layer",) if RELEASE.startswith("8.") else ("ONNXTRT_",)  # by the parser
no_fp16 = pytest.mark.skipif(TYPED, reason="TensorRT 11 takes no FP16 flag")
PRECISIONS = ["fp32"] if TYPED else ["fp32", "fp16"]


def built(folder, *words, **options):
    """(bundle, set, stderr) after one build of a copy of the committed bundle."""
    path = bundles.copied(options.pop("source", bundles.ROPE), folder)
    status, err = build(path, *words, **options)
    assert status == 0, err
    assert leftovers(path) == []
    return only_set(path) + (err,)


@pytest.mark.parametrize("source", bundles.BOTH)
@pytest.mark.parametrize("layout", ["split", "shared"])
@pytest.mark.parametrize("rows", ["capacity", "buckets"])
def test_what_is_built_gives_the_golden_tokens(source, layout, rows, tmp_path, standin):
    standin.set_executor(execute)
    words = ["--precision", "fp32", "--layout", layout, "--past-rows", rows]
    bundle, engines, _ = built(tmp_path, *words, source=source)
    assert (engines.layout, engines.precision, engines.cache_dtype) == (layout, "fp32", "float32")
    compute_built(bundle, engines)
    with open_backend(bundle, "trt") as backend:
        assert engines.key in backend.reason
        assert golden_mismatches(backend, bundle.manifest) == []


@no_fp16
def test_an_fp16_build_has_a_half_precision_cache_that_the_backend_drives(tmp_path, standin):
    standin.set_executor(execute)
    bundle, engines, _ = built(tmp_path)
    assert (engines.precision, engines.cache_dtype) == ("fp16", "float16")
    compute_built(bundle, engines)
    golden = bundle.manifest.golden
    with open_backend(bundle, "trt") as backend:
        wrong = golden_mismatches(backend, bundle.manifest)
    # the stand-in rounds cached rows alone, so that nearly every token stays the same
    assert len(wrong) <= len(golden.greedy_ids) // 8


# What each release builds of the other forms of a bundle; the rest it refuses.
OTHER_FORMS = [(bundles.HOST, precision) for precision in PRECISIONS]
OTHER_FORMS += [] if RELEASE.startswith("8.") else [(bundles.HALF, "fp16")]


@pytest.mark.parametrize(("source", "precision"), OTHER_FORMS)
@pytest.mark.parametrize("layout", ["split", "shared"])
def test_typed_graphs_and_host_embeddings_stay_inside_their_limits(
    source, precision, layout, tmp_path, standin
):
    standin.set_executor(execute)
    words = ["--precision", precision, "--layout", layout]
    bundle, engines, _ = built(tmp_path, *words, source=source)
    assert engines.flags["typing"] == ("graph" if TYPED or source == bundles.HALF else "flags")
    compute_built(bundle, engines)
    with open_backend(bundle, "trt") as backend:
        run = golden_run(backend, bundle.manifest)
        assert run.beyond(bundle.manifest.golden.limits[precision]) is None


@pytest.mark.skipif(not RELEASE.startswith("8."), reason="later releases take typed graphs")
def test_fp16_graphs_are_refused_by_tensorrt_8_with_the_export_that_helps(tmp_path):
    path = bundles.copied(bundles.HALF, tmp_path)
    status, err = build(path)
    assert status == 2
    assert "holds fp16 graphs, which TensorRT 8.6.1 does not take" in err
    assert "python -m edgeformer.export RECIPE.toml --precision fp32" in err


@pytest.mark.parametrize("precision", PRECISIONS)
def test_flags_and_network_of_each_precision(precision, tmp_path):
    bundle, engines, _ = built(tmp_path, "--precision", precision)
    for kind in ("decode", "prefill"):
        calls = Calls(bundle, engines, kind)
        expected = {"fp32": set(), "fp16": {"FP16", "OBEY_PRECISION_CONSTRAINTS", "TF32"}}
        assert calls.flags == expected[precision]  # TF32 is on until it is cleared
        assert calls.network == 1  # explicit batch up to 10, strongly typed in 11
        assert calls.workspace == 256
        assert set(calls.formats.values()) == {1}, "linear, not what TensorRT likes best"


@no_fp16
@pytest.mark.parametrize("source", bundles.BOTH)
@pytest.mark.parametrize("kind", ["decode", "prefill"])
def test_fp16_pins_the_layers_of_pinned_nodes_and_no_other(source, kind, tmp_path):
    bundle, engines, _ = built(tmp_path, "--precision", "fp16", source=source)
    layers = Calls(bundle, engines, kind).layers
    file = bundle.manifest.graphs[kind].file
    operators = {}
    graph = read_graph(bundle.file(file), file)
    for node in graph.nodes:
        operators.setdefault(node.operator, []).append(node.name)
    for operator in ("Softmax", "ReduceMean", "Sqrt"):
        for name in operators[operator]:
            assert layers[name] == (0, 0), name
    for operator in ("MatMul", "Gemm", "Sigmoid", "Split", "Transpose"):
        for name in operators.get(operator, ()):
            assert layers[name] == (None, None), name
    # masks are INT32 until they are cast; a cast has an FP32 output and INT32 inside
    for operator, types in (("Min", (None, None)), ("Cast", (None, 0))):
        for name in operators[operator]:
            assert layers[name] == types, name
    pinned = {name for name, types in layers.items() if types != (None, None)}
    others = pinned - set(graph.initializers)
    assert all(name.startswith(("fp32/", *ADDED)) for name in others)
    assert int(engines.flags[kind + "_fp32_layers"]) == len(pinned)


@no_fp16
def test_constants_of_pinned_layers_are_not_rounded_and_weights_are(tmp_path):
    bundle, engines, _ = built(tmp_path, "--precision", "fp16")
    layers = Calls(bundle, engines, "prefill").layers
    graph = read_graph(bundle.file("prefill.onnx"), "prefill.onnx")
    read = {}  # constant -> names of the nodes that read it
    for node in graph.nodes:
        for name in set(node.inputs) & set(graph.initializers):
            read.setdefault(name, []).append(node.name)
    floats = [name for name in read if graph.initializers[name].element == 1]
    for name in floats:
        pinned = any(reader.startswith("fp32/") for reader in read[name])
        assert layers[name] == (None, 0 if pinned else None), name
    tables = [name for name in floats if any("fp32/Gather" in reader for reader in read[name])]
    assert len(tables) == 2, "cosines and sines"


@no_fp16
def test_reshapes_of_the_parser_between_pinned_layers_are_pinned_and_others_are_not(tmp_path):
    bundle, engines, _ = built(tmp_path, "--precision", "fp16")
    layers = list(Calls(bundle, engines, "prefill").layers.items())
    before = {}  # type of the reshape before a layer; the stand-in puts it right there
    for (name, types), (following, _) in zip(layers, layers[1:]):
        if name.startswith(ADDED):
            before[following] = types
    # the divisor of a norm is a pinned square root; what a residual adds is a product in FP16
    divisions = [name for name in before if name.endswith("norm/Div")]
    assert len(divisions) == 5
    assert {before[name] for name in divisions} == {(0, 0)}
    residuals = [name for name in before if re.match(r"blocks\.\d/Add", name)]
    assert residuals
    assert {before[name] for name in residuals} == {(None, None)}


@pytest.mark.parametrize(
    ("layout", "ranges"),
    [
        ("split", {"decode": ([1, 1], [1, 1]), "prefill": ([8, 16], [1, 8])}),
        ("shared", {"prefill": ([1, 16], [1, 8])}),
    ],
)
def test_profiles_cover_what_a_backend_asks_for(layout, ranges, tmp_path):
    bundle, engines, _ = built(tmp_path, "--precision", "fp32", "--layout", layout)
    assert bundle.manifest.chunk == 16
    found = {k: (list(e.tokens), list(e.rows)) for k, e in engines.engines.items()}
    assert found == ranges
    assert engines.past_rows == (bundle.manifest.capacity,)


def test_workspace_tactics_and_timings_reach_the_builder(tmp_path):
    import tensorrt

    sources = tensorrt.TacticSource.__members__
    chosen = sorted(sources)[-2:]
    words = ["--precision", "fp32", "--workspace", "96", "--tactics", ",".join(chosen).lower()]
    bundle, engines, _ = built(tmp_path, *words)
    first, second = Calls(bundle, engines, "decode"), Calls(bundle, engines, "prefill")
    assert (first.workspace, first.tactics) == (96, sum(1 << int(sources[n]) for n in chosen))
    assert first.tactics != 1
    assert first.timings == 0
    assert second.timings == 16, "the second plan begins with the first one's timings"
    assert engines.flags["tactics"] == ",".join(chosen)
    assert engines.flags["prefill_workspace_mib"] == "96"


def test_an_unknown_source_of_tactics_is_told_with_the_known_ones(tmp_path):
    path = bundles.copied(bundles.ROPE, tmp_path)
    status, err = build(path, "--precision", "fp32", "--tactics", "cudnm")
    assert status == 2
    assert "has no source CUDNM; it has " in err
    assert "EDGE_MASK_CONVOLUTIONS" in err or RELEASE == libraries.AS_821


def test_timings_that_are_damaged_are_left_out_and_written_again(tmp_path):
    bundle, engines, _ = built(tmp_path, "--precision", "fp32", "--layout", "shared")
    folder = os.path.join(bundle.path, "engines")
    (name,) = [name for name in os.listdir(folder) if name.startswith("timings-")]
    assert name == "timings-Stand-in_GPU-%s.cache" % engines.tensorrt
    with open(os.path.join(folder, name), "wb") as file:
        file.write(b"what is left of a file")
    assert build(bundle.path, "--precision", "fp32", "--layout", "shared", "--force")[0] == 0
    bundle, engines = only_set(bundle.path)
    assert Calls(bundle, engines, "prefill").timings == 0
    assert os.path.getsize(os.path.join(folder, name)) == 16


@pytest.mark.skipif(not TYPED, reason="up to TensorRT 10 there is an FP16 flag")
def test_fp16_from_fp32_graphs_is_refused_where_there_is_no_flag(tmp_path):
    path = bundles.copied(bundles.ROPE, tmp_path)
    status, err = build(path)
    assert status == 2
    assert "no FP16 flag" in err
    assert "python -m edgeformer.export RECIPE.toml --precision fp16" in err


@pytest.fixture
def orin(monkeypatch):
    """The children of this process find the stand-ins, and a GPU with INT8."""
    env = libraries.environment(RELEASE, FOLDER, EDGEFORMER_STANDIN_GPU="87", **{FAULTS: "int8=1"})
    for name in env:
        monkeypatch.setenv(name, env[name])
    return probe(lambda line: None)


def built_here(path, here, asked, **manifest):
    """The set that a bundle with another manifest gets; no exporter writes such a one yet."""
    bundle = bundles.opened(path, **manifest)
    made = build_engines(bundle, here, asked, ("split",), 4 << 30, False, lambda line: None)
    assert made.is_new
    return bundle, made.engines


def test_auto_takes_the_layout_that_fits_and_later_what_is_there(tmp_path, orin, monkeypatch):
    # builders that need nothing, so that a tiny model's running decides
    for name in ("BUILDER_BASE", "BUILDER_FACTOR", "WORKSPACE"):
        monkeypatch.setattr(memory, name, memory.PROCESS._replace(value=0))
    bundle = bundles.opened(bundles.copied(bundles.ROPE, tmp_path))
    asked = Asked("fp32", (100,), (256,), ())
    shared = plan_for(bundle, "fp32", ("shared",), 0).needs.largest
    found = []
    for available, layouts in ((shared, LAYOUTS), (shared * 2, LAYOUTS), (shared * 2, ["split"])):
        made = build_engines(bundle, orin, asked, layouts, available, False, lambda line: None)
        found.append((made.engines.layout, made.is_new))
    assert found == [("shared", True), ("shared", False), ("split", True)]


@no_fp16
def test_int8_from_quantized_graphs_allows_int8_and_fp16_and_pins_the_same(tmp_path, orin):
    path = bundles.copied(bundles.ROPE, tmp_path)
    asked = Asked("int8", (100,), (256,), ())
    bundle, engines = built_here(path, orin, asked, precision="int8-qdq")
    assert (engines.precision, engines.cache_dtype) == ("int8", "float16")
    calls = Calls(bundle, engines, "decode")
    assert calls.flags == {"FP16", "INT8", "OBEY_PRECISION_CONSTRAINTS", "TF32"}
    assert calls.layers["fp32/blocks.0/attention/Softmax"] == (0, 0)


@pytest.mark.skipif(RELEASE.startswith("8."), reason="no strong typing before TensorRT 10")
@pytest.mark.parametrize("stored", ["fp16"] + ["int8-qdq"] * TYPED)  # to 10, INT8 has a flag
def test_typed_graphs_make_a_strongly_typed_network_and_no_flags(stored, tmp_path, orin):
    path = bundles.copied(bundles.ROPE, tmp_path)
    asked = Asked(stored.split("-")[0], (100,), (256,), ())
    bundle, engines = built_here(path, orin, asked, precision=stored)
    calls = Calls(bundle, engines, "prefill")
    assert calls.flags == {"TF32"}  # as TensorRT has it
    assert calls.network == (1 if TYPED else 3)
    assert set(calls.layers.values()) == {(None, None)}
    assert engines.flags["typing"] == "graph"


def test_the_parent_imports_neither_tensorrt_nor_cuda(tmp_path):
    path = bundles.copied(bundles.ROPE, tmp_path)
    code = (
        "import sys\nfrom edgeformer.__main__ import main\n"
        "status = main(['build', %r, '--precision', 'fp32', '--memory', '4000'])\n"
        "found = [n for n in ('tensorrt', 'pycuda', 'numpy') if n in sys.modules]\n"
        "sys.exit(repr(found) if found else status)" % path
    )
    env = libraries.environment(RELEASE, FOLDER)
    run = subprocess.run([sys.executable, "-c", code], env=env, stderr=subprocess.PIPE, timeout=60)
    assert run.returncode == 0, run.stderr
    only_set(path)
