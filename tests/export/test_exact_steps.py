"""n8 with exact steps: several tokens in a step give the very bits of one at a time."""

import dataclasses
import json
import os

import numpy as np
import onnx
import pytest

import edgeformer
from edgeformer.__main__ import main
from edgeformer.backends import open_backend
from edgeformer.bundle import Bundle
from edgeformer.errors import CheckFailed, EdgeformerError
from edgeformer.export import build
from edgeformer.export.build import export_decoder
from edgeformer.export.gate import Gate
from edgeformer.generation.golden import STEP_SIZES
from tests.nn.choices import CHOICES, random_decoder

ROWS = 64
LONGEST = STEP_SIZES[-1]
QUICK = ("gqa", "mqa", "window", "alibi", "alibi-bfloat16", "like-gemma", "qk-norm-head")


def exported(folder, name="gqa", exact=True, block=32):
    """A bundle of such blocks: the width of the model is a multiple of that."""
    config = dataclasses.replace(CHOICES[name], d_model=block, d_ff=block)
    export_decoder(
        random_decoder(config, 1, 0.35),
        folder,
        name="m",
        target="cpu",
        precision="n8",
        exact_steps=exact,
        block=block,
        capacity=ROWS,
        gate=Gate(allow=True),
    )
    return str(folder)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    return exported(tmp_path_factory.mktemp("exact") / "b")


def in_steps(backend, ids, size, start=0):
    """Logits of all ids, in steps of so many."""
    backend.truncate(start)
    parts = []
    for at in range(start, len(ids), size):
        part = ids[at : at + size]
        parts.append(backend.step(part, range(at, at + len(part)), range(len(part))).logits)
    return np.concatenate(parts)


def some_ids(seed, count, vocabulary=96):
    return np.random.default_rng(seed).integers(0, vocabulary, count).tolist()


@pytest.mark.parametrize(
    "name, block",
    [(n, 32) if n in QUICK else pytest.param(n, 32, marks=pytest.mark.slow) for n in CHOICES]
    + [("gqa", 64), ("all-biases", 64), ("tied", 64)],
)
def test_steps_of_any_size_give_the_bits_of_single_tokens_up_to_the_last_row(name, block, tmp_path):
    """Blocks of 64 are smoothed, and a tied table is divided again where it is looked up."""
    path = exported(tmp_path / "b", name, block=block)
    nodes = onnx.load(os.path.join(path, "step.onnx"), load_external_data=False).graph.node
    sizes = {a.i for node in nodes for a in node.attribute if a.name == "block_size"}
    assert max(sizes) == block
    ids = some_ids(3, ROWS)
    for threads in (1, 2):
        with open_backend(Bundle.open(path), "ort", threads) as backend:
            alone = in_steps(backend, ids, 1)
            assert np.ptp(alone) > 0.5
            for size in (2, 3, 8, LONGEST):
                assert np.array_equal(in_steps(backend, ids, size), alone), (threads, size)


def test_without_it_they_do_not(tmp_path):
    """Else the option would do nothing."""
    with open_backend(Bundle.open(exported(tmp_path / "b", exact=False)), "ort", 1) as backend:
        assert not backend.exact_steps
        ids = some_ids(3, ROWS)
        assert not np.array_equal(in_steps(backend, ids, 8), in_steps(backend, ids, 1))


def test_the_spare_row_leaves_nothing_behind(bundle):
    """A row that was written for nobody is written again before it is read."""
    with open_backend(Bundle.open(bundle), "ort", 1) as backend:
        ids = some_ids(4, 40)
        fresh = in_steps(backend, ids, 1)
        in_steps(backend, some_ids(5, ROWS), LONGEST)
        assert np.array_equal(in_steps(backend, ids, 1), fresh)
        kept = backend.read_rows(0, 20)
        backend.truncate(0)
        backend.write_rows(kept, ids[:20])
        assert np.array_equal(in_steps(backend, ids, 4, start=20), fresh[20:])


@pytest.mark.parametrize("block", [32, 64])
def test_greedy_text_is_the_same_with_drafts_and_without(block, bundle, tmp_path):
    """Prompts that repeat themselves, so that drafts are made, right ones and wrong ones."""
    path = bundle if block == 32 else exported(tmp_path / "b", block=block)
    accepted = wrong = 0
    with edgeformer.load(path, threads=1) as model:
        for seed in range(50):
            part = some_ids(seed, 6)
            prompt = part * 3 + part[: seed % 6]
            asked = {"max_new_tokens": ROWS - len(prompt)}
            plain = [step.token for step in model.stream(prompt, draft="off", **asked)]
            steps = list(model.stream(prompt, draft="lookup", **asked))
            assert [step.token for step in steps] == plain, seed
            stats = steps[-1].stats
            accepted += stats.accepted
            wrong += stats.drafted - stats.accepted
    assert accepted > 50 and wrong > 50


def test_a_bundle_without_it_refuses_greedy_drafts_and_names_the_option(tmp_path):
    refused = pytest.raises(EdgeformerError, match="export it with --exact-steps")
    with edgeformer.load(exported(tmp_path / "b", exact=False)) as model, refused:
        next(model.stream([1, 2, 3], draft="lookup"))


@pytest.mark.parametrize(
    "options, named",
    [
        ({"precision": "fp32"}, "not for fp32"),
        ({"precision": "n4"}, "not for n4"),
        ({"precision": "n8", "dialect": "portable"}, "dialect portable"),
    ],
)
def test_what_cannot_have_exact_steps_is_refused_before_anything_is_written(
    options, named, tmp_path
):
    decoder = random_decoder(CHOICES["gqa"], 1, 0.35)
    with pytest.raises(EdgeformerError, match=named):
        export_decoder(decoder, tmp_path / "b", name="m", target="cpu", exact_steps=True, **options)
    assert list(tmp_path.iterdir()) == []


def test_a_graph_that_does_not_keep_it_is_not_published(tmp_path, monkeypatch):
    traced = build.trace_all
    monkeypatch.setattr(
        build, "trace_all", lambda *args, exact, **more: traced(*args, exact=False, **more)
    )
    with pytest.raises(CheckFailed, match=r"steps of \d+ tokens give other logits"):
        exported(tmp_path / "b")
    assert list(tmp_path.iterdir()) == []


def test_check_computes_it_again_where_the_bundle_is(bundle, capsys, monkeypatch):
    assert main(["check", bundle, "--backend", "ort"]) == 0
    assert "steps of 1, 2, 4, 8, 16 tokens give the same bits" in capsys.readouterr().err
    assert main(["info", bundle]) == 0
    assert "exact: several tokens" in capsys.readouterr().out
    step = edgeformer.backends.ort_fused.FusedBackend.step

    def rounded(self, token_ids, *rest):
        output = step(self, token_ids, *rest)
        if len(token_ids) == 4 and output.logits is not None:
            output.logits[-1, 5] = np.nextafter(output.logits[-1, 5], 9)
        return output

    monkeypatch.setattr(edgeformer.backends.ort_fused.FusedBackend, "step", rounded)
    assert main(["check", bundle, "--backend", "ort"]) == 1
    assert "steps of 4 tokens give other logits" in capsys.readouterr().err


@pytest.mark.parametrize(
    "change, why",
    [
        ({"exact_steps": "yes"}, "exact_steps is 'yes'; it must be true or false"),
        ({"exact_steps": False}, "does not fit the model"),
        ({"precision": "n4"}, "it is for n8"),
    ],
)
def test_a_manifest_that_contradicts_it_is_refused(change, why, bundle, tmp_path):
    with open(bundle + "/manifest.json", encoding="ascii") as file:
        data = {**json.load(file), **change}
    data["golden"]["limits"].update(n4=data["golden"]["limits"]["n8"])
    (tmp_path / "manifest.json").write_text(json.dumps(data))
    with pytest.raises(EdgeformerError, match=why):
        Bundle.open(str(tmp_path))
