"""`bench --profile`: its sums against the trace itself, its bytes against the model's sizes, and
what is refused."""

import json
import os
import subprocess
import sys
import tempfile

import onnxruntime
import pytest

from edgeformer.backends import open_ort
from edgeformer.bench import document as documents
from edgeformer.bench.profile import measure
from edgeformer.bench.profile.figures import figures
from edgeformer.bench.profile.places import Places
from edgeformer.bench.profile.samples import Wanted, taken
from edgeformer.bench.profile.text import text_of
from edgeformer.bench.profile.trace import read_runs
from edgeformer.bundle import Bundle
from edgeformer.cli import huge_pages
from edgeformer.errors import EdgeformerError
from edgeformer.model import Model
from edgeformer.speed.costs import Steps
from tests import bundles
from tests.test_cli import ROOT, environment

OLD = int(onnxruntime.__version__.split(".")[1]) < 24
WANTED = Wanted(rows=10, new_tokens=12, prompts=(20,), seed=1)
PORTABLE = [bundles.ROPE, bundles.LEARNED, bundles.INT8, bundles.HOST]
NEWER = [] if OLD else [bundles.HALF, bundles.FUSED, bundles.FUSED_LEARNED, bundles.BLOCKS]


class Taken:
    """A bundle profiled once, with the file that was written."""

    def __init__(self, path, folder):
        self.bundle = Bundle.open(path)
        with open_ort(self.bundle, 1, os.path.join(folder, "profile")) as backend:
            self.phases, self.steps = taken(Model(self.bundle, backend, None), WANTED)
            self.path = backend.end_profile()
        self.runs = read_runs(self.path)

    def figures(self):
        steps = Steps(self.bundle, self.bundle.manifest.precision, True)
        return [
            figures(phase, [phase, phase], self.runs, steps, WANTED.rows) for phase in self.phases
        ]


@pytest.fixture(scope="module", params=PORTABLE + NEWER, ids=os.path.basename)
def profiled(request):
    with tempfile.TemporaryDirectory() as folder:
        yield Taken(request.param, folder)


def test_every_event_of_the_trace_is_in_a_run(profiled):
    """Against the file read as JSON, and nothing of ours."""
    with open(profiled.path) as file:
        events = json.load(file)
    kernels = [e for e in events if e["cat"] == "Node" and e["name"].endswith("_kernel_time")]
    assert len(profiled.runs) == profiled.steps
    assert sum(len(run.nodes) for run in profiled.runs) == len(kernels) > 100
    assert sum(run.nodes_us for run in profiled.runs) == sum(e["dur"] for e in kernels)
    whole = sum(e["dur"] for e in events if e["name"] == "model_run")
    assert sum(run.us for run in profiled.runs) == whole


def test_parts_add_up_to_the_whole_and_groups_to_the_nodes(profiled):
    for found in profiled.figures():
        assert sum(found["parts"].values()) == pytest.approx(found["us"])
        nodes = found["parts"]["nodes"]
        for group in ("nodes", "operators", "layers"):
            assert sum(row["us"] for row in found[group]) == pytest.approx(nodes)
        for layer in found["layers"]:
            inside = sum(layer["parts"].values())
            if layer["name"].startswith("layer "):
                assert inside == pytest.approx(layer["us"])
        kept = [s.whole_s for p in profiled.phases for s in p.samples if p.length is None]
        if found["what"] == "decode":
            assert min(kept) * 1e6 < found["us"] < max(kept) * 1e6


def test_no_node_is_without_a_place(profiled):
    """But FP16's folded constants, whose names tell nothing."""
    model = profiled.bundle.manifest.model
    wanted = ["layer %d" % index for index in range(model["n_layers"])]
    for found in profiled.figures():
        layers = [row["name"] for row in found["layers"]]
        assert [name for name in layers if name.startswith("layer ")] == wanted
        assert layers[0] in ("embedding", "positions and masks") and "head" in layers
        lost = [n for n in found["nodes"] if n["layer"] == "not told"]
        assert all(n["name"].startswith("InsertedPrecisionFreeCast_constant") for n in lost)
        for row in found["layers"]:
            if row["name"] in wanted:
                assert {"attention", "attention products"} <= {
                    n["part"] for n in found["nodes"] if n["layer"] == row["name"]
                }
                products = [
                    n
                    for n in found["nodes"]
                    if n["layer"] == row["name"] and n["part"] == "attention products"
                ]
                assert {n["module"].split("/")[-1] for n in products} == {"qkv", "out"}
                norms = [
                    n
                    for n in found["nodes"]
                    if n["layer"] == row["name"] and n["operator"].endswith("LayerNormalization")
                ]
                assert len(norms) >= 2 and all(n["part"] == "norms" for n in norms)


def test_bytes_of_products_are_those_of_the_model(profiled):
    """Of matrices by their sizes, of the cache by its rows; and all weights have a reader."""
    manifest = profiled.bundle.manifest
    model, decode = manifest.model, profiled.figures()[0]
    width = {"n8": 1 + 4 / 32, "int8-dynamic": 1}.get(manifest.precision, 4)
    rows = {row["name"]: row for row in decode["products"]}
    heads, kv_heads = model["n_heads"], model["n_kv_heads"]
    inner, qkv = model["d_model"], (heads + 2 * kv_heads) * model["head_dim"]
    scales = 4 * qkv if manifest.precision == "int8-dynamic" else 0
    found = rows["attention/qkv"]["weight_bytes"]
    biases = 4 * qkv if manifest.model.get("qkv_bias") else 0
    sizes = model["n_layers"] * (inner * qkv * width + scales)
    assert sizes <= found <= sizes + model["n_layers"] * (max(biases, 4 * qkv) + 16)
    assert rows["head"]["weight_bytes"] >= inner * model["vocab_size"] * width
    past = WANTED.rows + (WANTED.new_tokens - 1) // 2 + 1  # half-way, with the new one
    if manifest.dialect == "portable":
        past = min(64, manifest.capacity)
    element = 2 if manifest.precision == "fp16" else 4
    row = 2 * model["n_layers"] * kv_heads * model["head_dim"] * element
    assert rows["cached keys and values"]["cache_bytes"] == past * row
    told = sum(node["weight_bytes"] for node in decode["nodes"])
    shared = 48 * len(decode["nodes"])  # sizes and axes that several nodes read, told for each
    assert 0.98 * decode["weight_bytes"] <= told <= decode["weight_bytes"] + shared


def test_norms_whose_names_are_lost_stand_in_the_models_order():
    """As onnxruntime 1.10 names them; one too few, and none is guessed."""
    steps = Steps(Bundle.open(bundles.ROPE), "fp32", True)
    graph, _ = steps.described(1, 5)
    lost = [("SimplifiedLayerNormalization", "SimplifiedLayerNormalization")]
    lost += [("SimplifiedLayerNormalization_token_%d" % i, lost[0][1]) for i in range(4)]
    modules = [place.module for place in Places(graph).of_run(lost)]
    assert modules == [
        "blocks.0/attention_norm",
        "blocks.0/ff_norm",
        "blocks.1/attention_norm",
        "blocks.1/ff_norm",
        "final_norm",
    ]
    assert {place.layer for place in Places(graph).of_run(lost[1:])} == {"not told"}
    named = lost[1:] + [("blocks.1/ff_norm/Mul/SimplifiedLayerNormFusion/", lost[0][1])]
    places = Places(graph).of_run(named)
    assert [place.module for place in places] == modules[:3] + [modules[4], modules[3]]


def durations(before):
    return lambda lines: [line.replace('"dur" :', '"dur" :' + before) for line in lines]


@pytest.mark.parametrize(
    "damage, told",
    [
        (lambda lines: lines[:-1], "before its end"),
        (lambda lines: lines[:-3] + [lines[-3][:40]], "is not an event"),
        (lambda lines: [], "before its end"),
        (lambda lines: ["\x00\x01\x02", *lines], "line 1 is not an event"),
        (durations("-"), "a duration of -"),
        (durations('"'), "is not an event"),
        (
            lambda lines: [line.replace('"dur" :', '"dur" :1.') for line in lines],
            "a duration of 1.",
        ),
        (lambda lines: [line.replace('"op_name"', '"no_name"') for line in lines], "'op_name'"),
        (lambda lines: [line.replace("_kernel_time", "_time") for line in lines], "without nodes"),
        (
            lambda lines: [
                line.replace('"dur" :', '"dur" :9') if "_kernel_time" in line else line
                for line in lines
            ],
            "nodes of",
        ),
        (lambda lines: [line for line in lines if '"model_run"' not in line], "has no end"),
    ],
)
def test_a_damaged_profile_is_refused(tmp_path, damage, told):
    found = Taken(bundles.LEARNED, str(tmp_path))
    with open(found.path) as file:
        lines = file.read().splitlines()
    assert '"dur" :' in lines[1]
    with open(found.path, "w") as file:
        file.write("\n".join(damage(lines)))
    with pytest.raises(EdgeformerError, match="no whole profile.*" + told):
        read_runs(found.path)
    os.remove(found.path)
    with pytest.raises(EdgeformerError, match=r"cannot be read.*TMPDIR"):
        read_runs(found.path)


def bench(*arguments):
    """(status, stdout, stderr)"""
    child = subprocess.run(
        [sys.executable, "-m", "edgeformer", "bench", "--profile", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
        env=dict(environment(), OMP_NUM_THREADS="1"),
        timeout=120,
    )
    return child.returncode, child.stdout, child.stderr


def test_the_command_tells_one_document_and_leaves_nothing_behind(tmp_path):
    path = str(tmp_path / "profile.json")
    before = set(os.listdir(tempfile.gettempdir()))
    status, out, err = bench(
        bundles.ROPE, "--threads", "1", "--new-tokens", "8", "--json", "-o", path
    )
    assert status == 0, err
    found = json.loads(out)
    with open(path) as file:
        assert json.load(file) == found
    assert (found["kind"], found["threads"], found["model"]["name"]) == ("profile", 1, "tiny-rope")
    with pytest.raises(EdgeformerError, match=r"profile\.json is a profile"):
        documents.read(path)
    (decode,) = found["phases"]
    assert len(decode["plain_us"]) == 2 and min(decode["plain_us"]) > 0
    assert decode["samples"] == 7 and 4 <= decode["kept"] < 7
    assert found["machine"]["packages"]["onnxruntime"] == onnxruntime.__version__
    assert 1e8 < found["machine"]["bandwidth_bytes_per_s"]["at_end"] < 1e12
    text = text_of(found)
    for words in ("A TOKEN with 53 rows", "without it", "by product", "layer 1", "ff/down"):
        assert words in text
    left = set(os.listdir(tempfile.gettempdir())) - before
    assert not [name for name in left if name.startswith("edgeformer-profile")]
    status, out, err = bench(bundles.LEARNED, "--new-tokens", "4", "--prompt-tokens", "9,20")
    assert status == 0, err
    assert "A PROMPT of 9 tokens" in out and "A PROMPT of 20 tokens" in out
    assert "not told  " not in out


@pytest.mark.parametrize(
    "arguments, told",
    [
        ([bundles.ROPE, bundles.LEARNED], "takes one bundle, not 2"),
        ([bundles.ROPE, "--backend", "trt"], "with --backend ort"),
        ([bundles.ROPE, "--backend", "gpu"], "choose auto, ort, trt"),
        ([bundles.ROPE, "--board-report"], "two commands"),
        ([bundles.ROPE, "--rounds", "3"], "takes no rounds"),
        ([bundles.ROPE, "--side-by-side"], "compares nothing"),
        ([bundles.ROPE, "--rows", "98"], "give 1 to 97"),
        ([bundles.ROPE, "--rows", "5,6"], "one number of rows"),
        ([bundles.ROPE, "--new-tokens", "99"], "it may be 4 to 51"),
        ([bundles.ROPE, "--prompt-tokens", "101"], "it may have 1 to 100"),
        ([bundles.ROPE, "--threads", "0"], "--threads is 0"),
        ([bundles.ROPE, "-o", "/proc/profile.json"], "cannot be written"),
        ([ROOT], "is no bundle"),
    ],
)
def test_a_mistake_is_told_before_anything_is_profiled(arguments, told):
    status, out, err = bench(*arguments)
    assert (status, out) == (2, "")
    assert told in err and "Traceback" not in err and "the profiler" not in err


def test_more_events_than_the_profiler_keeps_are_refused():
    steps = 4000
    with pytest.raises(EdgeformerError, match="more than onnxruntime's profiler keeps"):
        measure._refuse_too_long(Wanted(64, steps, (), 1), 300, 128)
    measure._refuse_too_long(Wanted(64, 200, (64,), 1), 300, 128)


def test_huge_pages_are_those_of_the_process_that_loads():
    try:
        wanted = huge_pages.environment({})[huge_pages.NAME]
    except EdgeformerError as error:
        pytest.skip(str(error))
    status, out, err = bench(
        bundles.ROPE, "--threads", "1", "--new-tokens", "4", "--huge-pages", "--json"
    )
    assert status == 0, err
    assert json.loads(out)["machine"]["glibc_tunables"] == wanted
