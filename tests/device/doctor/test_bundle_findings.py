"""`doctor BUNDLE`: a bundle that is damaged, too new, too large, or with engines of elsewhere."""

import os

import pytest

from edgeformer.bundle import Bundle
from edgeformer.engines.record import engine_json
from tests import bundles
from tests.device import boards
from tests.device.doctor import fakes
from tests.device.doctor.fakes import answers, telling

SHA = "0" * 64


def engine(path, name="fp16-split-1", tensorrt="8.2.1.8", device="NVIDIA Tegra X1", **changes):
    """A set of engines as `build` leaves it, with plans of one byte."""
    manifest = Bundle.open(path).manifest
    folder = os.path.join(path, "engines", name)
    for plan in ("decode.plan", "prefill.plan"):
        boards.write(folder, plan, "x")

    def plan(file, most):
        entry = {"file": file, "bytes": 1, "sha256": SHA, "tokens": [1, most], "rows": [1, 1]}
        return entry

    record = {
        "format": 1,
        "key": name,
        "layout": "split",
        "precision": "fp16",
        "cache_dtype": "float16",
        "past_rows": [manifest.capacity],
        "tensorrt": tensorrt,
        "device": {"name": device, "compute_capability": "5.3"},
        "graphs": {n: manifest.files[n].sha256 for n in ("decode.onnx", "prefill.onnx")},
        "flags": {},
        "engines": {"decode": plan("decode.plan", 1), "prefill": plan("prefill.plan", 4096)},
        "build": {"seconds": 1},
    }
    record.update(changes)
    boards.write(folder, "engine.json", engine_json(record))


def findings(path, tmp_path, *topics, **changes):
    root = fakes.nano(tmp_path / "root")
    found = fakes.found(root, answers(**changes), bundle=path)
    return [finding for finding in found if finding.topic in topics]


@pytest.fixture
def bundle(tmp_path):
    return bundles.copied(bundles.ROPE, tmp_path)


def test_a_bundle_without_engines_is_fine_and_says_how_to_build_them(bundle, tmp_path):
    whole, none = findings(bundle, tmp_path, "bundle", "engine", "bundle needs", "fit")
    assert (whole.status, "tiny-rope" in whole.fact) == ("ok", True)
    assert (none.status, none.fix) == ("note", "python -m edgeformer build " + bundle)


def test_a_damaged_bundle_blocks(bundle, tmp_path):
    os.remove(os.path.join(bundle, "weights.bin"))
    (finding,) = findings(bundle, tmp_path, "bundle", "engine")
    assert (finding.status, "weights.bin is missing" in finding.fact) == ("blocks", True)
    (finding,) = findings(str(tmp_path / "none"), tmp_path, "bundle", "engine")
    assert finding.status == "blocks"


def test_a_bundle_that_needs_a_newer_onnxruntime_blocks_and_names_the_export(tmp_path):
    (finding,) = findings(bundles.BLOCKS, tmp_path, "bundle needs")
    assert (finding.status, "and here is 1.10.0" in finding.fact) == ("blocks", True)
    assert "int8-dynamic" in finding.fix


def test_int8_graphs_on_a_nano_are_a_problem(bundle, tmp_path, monkeypatch):
    changed = bundles.opened(bundle, precision="int8-qdq")
    monkeypatch.setattr(Bundle, "open", lambda path: changed)
    (finding,) = findings(bundle, tmp_path, "precision")
    assert (finding.status, "no INT8" in finding.why) == ("problem", True)


def test_a_bundle_larger_than_the_memory_is_a_problem(bundle, tmp_path):
    root = fakes.nano(tmp_path / "root")
    boards.write(root, "proc/meminfo", "MemTotal: 4059528 kB\nMemAvailable: 10 kB\n")
    found = fakes.found(root, answers(), bundle=bundle)
    (finding,) = [finding for finding in found if finding.topic == "fit"]
    assert (finding.status, "edgeformer plan" in finding.fix) == ("problem", True)


def test_an_engine_of_this_machine_is_ok(bundle, tmp_path):
    engine(bundle)
    (finding,) = findings(bundle, tmp_path, "engine")
    assert (finding.status, "fp16, split, TensorRT 8.2.1.8" in finding.fact) == ("ok", True)


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"tensorrt": "8.5.2"}, "TensorRT 8.5.2, and here is 8.2.1.8"),
        ({"device": "Orin"}, "Orin, and here is NVIDIA Tegra X1"),
    ],
)
def test_an_engine_of_another_machine_names_what_differs(changes, words, bundle, tmp_path):
    engine(bundle, **changes)
    (finding,) = findings(bundle, tmp_path, "engine")
    assert (finding.status, words in finding.fact) == ("problem", True)
    assert finding.fix.endswith("--prune")


def test_an_engine_of_another_compute_capability_names_it(bundle, tmp_path):
    engine(bundle)
    gpu = telling(version="2021.1", gpu="NVIDIA Tegra X1", compute_capability="8.7")
    (finding,) = findings(bundle, tmp_path, "engine", pycuda=gpu)
    assert "compute capability 5.3, and here is 8.7" in finding.fact


def test_an_int8_engine_on_a_nano_is_a_problem(bundle, tmp_path):
    engine(bundle, precision="int8")
    (finding,) = findings(bundle, tmp_path, "engine")
    assert (finding.status, "--precision fp16" in finding.fix) == ("problem", True)


def test_a_truncated_engine_and_one_of_another_bundle_are_problems(bundle, tmp_path):
    engine(bundle)
    boards.write(bundle, "engines/fp16-split-1/decode.plan", "")
    (finding,) = findings(bundle, tmp_path, "engine")
    assert (finding.status, "has 0 bytes" in finding.fact) == ("problem", True)
    assert finding.fix.endswith("python -m edgeformer build " + bundle)
    engine(bundle, graphs={"decode.onnx": SHA})
    (finding,) = findings(bundle, tmp_path, "engine")
    assert "another decode.onnx" in finding.fact


def test_what_a_killed_build_left_is_noted(bundle, tmp_path):
    engine(bundle)
    os.makedirs(os.path.join(bundle, "engines", ".fp16-split-1.part-77"))
    _, part = findings(bundle, tmp_path, "engine")
    assert (part.status, "part-77 is not finished" in part.fact) == ("note", True)
