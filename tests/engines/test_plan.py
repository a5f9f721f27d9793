"""The fit plan: what is counted, which change is found first, what the command says."""

import json
import os
import subprocess
import sys

import pytest

from edgeformer.__main__ import main
from edgeformer.bundle import Bundle
from edgeformer.engines import memory, plan
from edgeformer.engines.graphfile import read_graph
from edgeformer.engines.needs import Case, Sizes
from edgeformer.engines.shapes import Value, broadcast, infer
from edgeformer.errors import BundleError
from edgeformer.targets import NO_PAGE, Fact
from tests import bundles
from tests.py36_grammar import ROOT

MIB = 1 << 20
CASE = Case("split", "fp32", 100, 16)


@pytest.fixture(scope="module")
def rope():
    return Bundle.open(bundles.ROPE)


@pytest.fixture(scope="module")
def sizes(rope):
    return Sizes(rope)


def test_stored_weights_are_all_of_weights_bin_but_padding_and_small_constants(rope, sizes):
    used = set()
    for graph in rope.manifest.graphs.values():
        for tensor in read_graph(rope.file(graph.file), graph.file).initializers.values():
            if tensor.place[0]:
                used.add((int(tensor.place[1]), tensor.bytes))
    ends = sorted((offset, offset + size) for offset, size in used)
    gaps = sum(b[0] - a[1] for a, b in zip(ends, ends[1:]))
    assert ends[0][0] == 0
    assert ends[-1][1] == rope.manifest.files["weights.bin"].bytes
    assert 0 <= gaps < 4096 * len(ends)
    inline = sizes.stored - (ends[-1][1] - gaps)
    assert 0 < inline < 1024 * len(ends)


def test_half_precision_halves_all_but_what_is_pinned(sizes):
    for kind in ("prefill", "decode"):
        whole, half = sizes.weights(kind, "fp32"), sizes.weights(kind, "fp16")
        assert half < 0.6 * whole
        tables = 2 * 120 * 4 * 4  # cosines and sines of 120 positions for half a head, FP32
        assert half - whole / 2 >= tables / 2, "rotation tables stay FP32"


def test_the_cache_is_two_rows_a_layer_and_position(rope, sizes):
    model = rope.manifest.model
    width = model["n_kv_heads"] * model["head_dim"]
    exact, case = 2 * model["n_layers"] * 64 * width, CASE._replace(capacity=64)
    assert sizes.needs(case).cache == exact * 4
    assert sizes.needs(case._replace(precision="fp16")).cache == exact * 2
    longer = sizes.needs(case._replace(capacity=128)).cache
    assert longer == exact * 8


def test_every_block_of_the_cache_is_aligned(sizes):
    needs = sizes.needs(CASE._replace(capacity=33, chunk=3))
    assert needs.cache % (4 * 256) == needs.new_rows % (4 * 256) == 0
    assert needs.new_rows == 4 * 256


def test_split_holds_the_weights_twice_and_shared_once(sizes):
    split, shared = sizes.needs(CASE), sizes.needs(CASE._replace(layout="shared"))
    both = sizes.weights("prefill", "fp32") + sizes.weights("decode", "fp32")
    assert split.weights == both
    assert shared.weights == sizes.weights("prefill", "fp32")
    assert split.running - shared.running == (both - shared.weights) + (split.plan - shared.plan)


def test_host_embedding_takes_the_table_out_of_each_engine(sizes):
    assert sizes.table() == 280 * 32 * 4
    host = sizes.needs(CASE._replace(embedding="host"))
    assert sizes.needs(CASE).weights - host.weights == 2 * sizes.table()
    assert not sizes.tied()


def test_activations_grow_with_chunk_and_capacity(sizes):
    def live(**changes):
        return sizes.needs(CASE._replace(**changes)).activations

    assert live(chunk=2) < live(chunk=8) < live(chunk=16)
    assert live(capacity=20) < live(capacity=100)
    assert live(precision="fp16") < live()


def test_activations_hold_at_least_the_widest_result(sizes, rope):
    d_ff, vocab = rope.manifest.model["d_ff"], rope.manifest.model["vocab_size"]
    assert sizes.needs(CASE).activations >= max(16 * d_ff * 4, 8 * vocab * 4)


def test_what_is_needed_is_the_sum_of_what_is_listed(sizes):
    needs = sizes.needs(CASE)
    parts = ("weights", "plan", "cache", "new_rows", "activations", "logits", "libraries")
    assert needs.running == sum(getattr(needs, part) for part in parts)
    assert needs.largest == needs.running + needs.loading
    largest = max(sizes.weights(kind, "fp32") for kind in ("prefill", "decode"))
    assert needs.loading == int(largest * memory.PLAN.value), "plans are loaded one by one"
    assert needs.libraries == memory.overhead() > 600 * MIB


def test_facts_of_memory_have_their_sources():
    facts = [fact for fact in vars(memory).values() if isinstance(fact, Fact)]
    assert len(facts) >= 8
    assert all(f.source.startswith(("https://", NO_PAGE)) and f.note for f in facts)


# which change is found


def needed(sizes, **changes):
    return sizes.needs(CASE._replace(**changes)).largest


def planned(rope, available, layouts=("split", "shared"), **changes):
    case = CASE._replace(capacity=100, **changes)
    return plan.make_plan(rope, case, available, layouts)


def test_split_is_chosen_where_it_fits_and_shared_where_only_that_does(rope, sizes):
    split, shared = needed(sizes), needed(sizes, layout="shared")
    assert shared < split
    assert planned(rope, split).case.layout == "split"
    found = planned(rope, split - 1)
    assert (found.case.layout, found.fits_running, found.change) == ("shared", True, None)
    assert not planned(rope, shared - 1).fits_running


def test_a_shorter_capacity_is_the_first_change_and_the_longest_that_fits(rope, sizes):
    available = needed(sizes, capacity=64)
    found = planned(rope, available, ("split",))
    assert not found.fits_running
    assert (found.change.what, found.change.case.capacity) == ("capacity 64", 64)
    assert found.change_is_for == "running", "building a tiny model needs more than running it"
    assert found.change.needs.largest <= available


def test_a_longer_model_is_cut_to_whole_buckets(rope, sizes):
    case = CASE._replace(capacity=1000)
    for rows in (896, 128):
        available = sizes.needs(case._replace(capacity=rows)).largest
        found = plan.make_plan(rope, case, available, ("split",))
        assert found.change.case.capacity == rows


def test_then_shared_then_host_embedding_then_a_smaller_chunk(rope, sizes):
    shared = needed(sizes, layout="shared")
    found = planned(rope, shared, ("split",))
    assert found.change.case == CASE._replace(layout="shared")
    assert found.commands == ["python -m edgeformer build BUNDLE --layout shared"]
    host = needed(sizes, layout="shared", embedding="host")
    assert host < needed(sizes, layout="shared", capacity=64)
    found = planned(rope, host, ("shared",))
    assert found.change.case == CASE._replace(layout="shared", embedding="host")
    assert found.commands == [
        "python -m edgeformer.export RECIPE.toml -o BUNDLE --embedding host",
    ]
    small = sizes.needs(CASE._replace(layout="onnxruntime", chunk=8)).largest
    found = planned(rope, small, ("onnxruntime",), layout="onnxruntime")
    assert found.change.case == CASE._replace(layout="onnxruntime", chunk=8)
    assert found.change_is_for == "both", "onnxruntime builds nothing"


def test_all_changes_together_are_tried_before_giving_up(rope, sizes):
    least = needed(sizes, layout="shared", embedding="host", capacity=64, chunk=8)
    found = planned(rope, least, ("split",))
    assert found.change.needs.largest == least
    for word in ("capacity 64", "shared", "host embedding", "chunk 8"):
        assert word in found.change.what
    assert planned(rope, least - 1, ("split",)).change is None


# the command


def run(capsys, *arguments):
    status = main(["plan", bundles.ROPE, *arguments])
    out, err = capsys.readouterr()
    return status, out, err


def test_it_fits_is_status_0_and_says_that_it_is_predicted(capsys):
    status, out, err = run(capsys, "--target", "jetson-nano")
    assert (status, err) == (0, "")
    assert "tiny-rope on jetson-nano-4gb, fp16, capacity 100, chunk 16" in out
    assert "3456 of 3956 MiB without a desktop" in out
    assert "predicted" in out
    assert "split: running fits" in out


def test_it_does_not_fit_is_status_1_with_the_way_out(capsys):
    status, out, _ = run(capsys, "--target", "jetson-nano", "--memory", "720")
    assert status == 1
    assert "running fits" in out
    assert "building does not fit" in out
    assert "swap" in out
    status, out, _ = run(capsys, "--target", "jetson-nano", "--memory", "600")
    assert status == 1
    assert "use a smaller model" in out


def test_json_has_the_bytes(capsys):
    status, out, _ = run(capsys, "--target", "jetson-orin-nano-4gb", "--json", "--layout", "shared")
    document = json.loads(out)
    assert status == 0
    assert document["target"] == "jetson-orin-nano-4gb"
    assert document["predicted"] is True
    assert list(document["layouts"]) == ["shared"]
    assert document["available"] == (3602 - 1347) * MIB
    assert document["fits"] is True


def test_without_a_target_the_memory_of_this_machine_counts(capsys):
    _, out, _ = run(capsys, "--json")
    document = json.loads(out)
    assert document["available"] > 100 * MIB
    assert "on this machine" in document["memory"]
    assert list(document["layouts"]) == ["onnxruntime"], "the bundle's own target is cpu"


def test_int8_on_the_nano_is_refused_with_the_reason(capsys):
    status, out, err = run(capsys, "--target", "jetson-nano", "--precision", "int8")
    assert (status, out) == (2, "")
    assert "5.3" in err
    assert "no INT8" in err
    assert "--precision fp16" in err
    status, _, err = run(capsys, "--target", "jetson-orin-nano", "--precision", "int8")
    assert status == 2
    assert "int8-qdq" in err


@pytest.mark.parametrize(
    "arguments",
    [
        ["--target", "jetson-tx2"],
        ["--memory", "0"],
        ["--capacity", "0"],
        ["--capacity", "121"],
        ["--chunk", "101"],
        ["--capacity", "10", "--chunk", "11"],
        ["--precision", "fp8", "--target", "jetson-nano"],
        ["--precision", "fp16", "--target", "cpu"],
        ["--layout", "split", "--target", "cpu"],
    ],
)
def test_an_impossible_wish_is_status_2(arguments, capsys):
    status, out, err = run(capsys, *arguments)
    assert (status, out) == (2, "")
    assert err.startswith("error: ")


def test_it_needs_neither_numpy_nor_onnxruntime():
    code = (
        "import sys\n"
        "for name in ('numpy', 'onnxruntime', 'onnx', 'torch'): sys.modules[name] = None\n"
        "from edgeformer.__main__ import main\n"
        "sys.exit(main(['plan', %r, '--target', 'jetson-nano']))" % bundles.ROPE
    )
    child = subprocess.run(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        env=dict(os.environ, PYTHONPATH=ROOT),
        timeout=60,
    )
    assert (child.returncode, child.stderr) == (0, b"")


# the header of a graph


@pytest.mark.parametrize("path", bundles.BOTH)
@pytest.mark.parametrize("kind", ["prefill", "decode"])
def test_sizes_flow_from_the_inputs_to_the_declared_outputs(path, kind):
    bundle = Bundle.open(path)
    graph = bundle.manifest.graphs[kind]
    free = {"T": 7, "P": 19, "R": 3}

    def shape(spec):
        return tuple(free.get(dim, dim) for dim in spec.shape)

    given = {s.name: Value(shape(s), 6 if s.dtype == "int32" else 1) for s in graph.inputs}
    values = infer(read_graph(bundle.file(graph.file), graph.file), given, graph.file)
    for spec in graph.outputs:
        assert values[spec.name].shape == shape(spec)


def test_sizes_that_do_not_broadcast_are_refused():
    assert broadcast((3, 1), (4,)) == (3, 4)
    with pytest.raises(ValueError):
        broadcast((3, 2), (4,))


@pytest.mark.parametrize("cut", [0, 1, 100, 5000])
def test_a_damaged_graph_is_one_error(cut, tmp_path):
    path = tmp_path / "graph.onnx"
    with open(os.path.join(bundles.ROPE, "prefill.onnx"), "rb") as file:
        path.write_bytes(file.read()[:cut])
    with pytest.raises(BundleError, match=r"graph\.onnx"):
        read_graph(str(path), "graph.onnx")


@pytest.mark.parametrize("seed", range(20))
def test_random_damage_is_an_error_or_a_plan(seed, tmp_path):
    import random

    chooser = random.Random(seed)
    path = bundles.copied(bundles.ROPE, tmp_path)
    content = bytearray(bundles.content_of(path, "prefill.onnx"))
    for _ in range(20):
        content[chooser.randrange(len(content))] = chooser.randrange(256)
    bundles.replace_file(path, "prefill.onnx", bytes(content))
    assert main(["plan", path, "--target", "jetson-nano"]) in (0, 1, 2)
