"""Checkpoints of every family, exported: each says what it says in `transformers`, on both Pythons.

The figures are those of docs/families.md. A few of them are in `make test`.
"""

import os
from pathlib import Path

import pytest

from tests.export.families.document import document, limit
from tests.export.families.fused import fused_measured, measure_fused
from tests.export.families.make_docs import PATH, dice_of, measured
from tests.export.families.measure import (
    PYTHON_36,
    export_shape,
    is_tested,
    run_here,
    run_on_36,
)
from tests.export.families.models import STEPS, TOLERANCE, WIDE, save, shapes_of
from tests.export.families.several import check_beams, check_score
from tests.nn.families.shapes import SHAPES

# In `make test`: RMSNorm and rotation, learned positions and LayerNorm, windows and soft caps,
# ALiBi, parallel residuals.
FEW = ("llama", "gpt2", "gemma2", "bloom", "falcon")
FIRST = [shapes_of(family)[0] for family in FEW]
OTHERS = [shape for shape in SHAPES if shape not in FIRST]
WIDEST_ERROR = 1.6e-5  # of the shapes in WIDE: that of smollm3
REMAKE = "run: python -m tests.export.families.make_docs"


class Measurements:
    """Exports of shapes, each made once; the runs on 3.6 share one process."""

    def __init__(self, shapes, folder):
        self.shapes, self.folder, self.known = shapes, folder, measured()["shapes"]
        self.exported, self.there = {}, {}

    def export(self, shape):
        if shape not in self.exported:
            assert shape in self.known, f"{shape} was never measured; {REMAKE}"
            (self.folder / shape).mkdir()
            dice = dice_of(self.known[shape])
            self.exported[shape] = export_shape(shape, dice, self.folder / shape)
        return self.exported[shape]

    def run_on_36(self, shape):
        if not self.there:
            made = [self.export(each) for each in self.shapes]
            self.there = dict(zip(self.shapes, run_on_36(made, self.folder), strict=True))
        return self.there[shape]


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    return Measurements(FIRST, tmp_path_factory.mktemp("first"))


@pytest.fixture(scope="module")
def others(tmp_path_factory):
    return Measurements(OTHERS, tmp_path_factory.mktemp("others"))


def check(made, ran, known):
    """One Python's run of a bundle against `transformers` and against the table."""
    assert ran.error <= TOLERANCE
    assert ran.error <= limit(known["error"]), f"it was {known['error']:.1e}; {REMAKE}"
    assert ran.tokens == made.said.tokens
    assert ran.prompt == made.said.prompt
    assert ran.wrong_texts == []


def check_export(made):
    """What the export left: the same tokens as golden ones, and nothing that the Nano refuses."""
    assert is_tested(made.said)
    assert made.bundle.manifest.golden.greedy_ids == tuple(made.said.tokens)
    assert made.bundle.manifest.tokenizer.identity.differences == ()
    assert made.findings == []


def on_this_python(measurements, shape):
    made = measurements.export(shape)
    (ran,) = run_here([made])
    check_export(made)
    check(made, ran, measurements.known[shape])


def on_python_36(measurements, shape):
    ran = measurements.run_on_36(shape)
    check(measurements.export(shape), ran, measurements.known[shape])


def in_dialect_ort(measurements, shape):
    """The same checkpoint in fused operators, which stand in the graph as the document says."""
    made, known = measurements.export(shape), fused_measured()[shape]
    found = measure_fused(made.said, Path(made.bundle.path).parent)
    assert is_tested(made.said)
    assert found["error"] <= min(TOLERANCE, limit(known["error"])), known["error"]
    assert (found["equal"], found["form"]) == (STEPS, known["form"]), REMAKE


python_36 = pytest.mark.skipif(
    not PYTHON_36.exists() and os.environ.get("CI") != "true",
    reason="NOT RUN: no .venv36; make it with requirements/ensure.sh py36",
)


@pytest.mark.parametrize("shape", FIRST)
def test_a_bundle_says_what_the_checkpoint_says(shape, first):
    on_this_python(first, shape)


@pytest.mark.parametrize("shape", FIRST)
def test_beams_are_those_of_transformers_and_scores_a_softmax_in_float64(shape, first):
    check_beams(first.export(shape))
    check_score(first.export(shape))


@pytest.mark.parametrize("shape", FIRST)
def test_a_fused_bundle_says_what_the_checkpoint_says(shape, first):
    in_dialect_ort(first, shape)


@python_36
@pytest.mark.parametrize("shape", FIRST)
def test_on_python_36_a_bundle_says_what_the_checkpoint_says(shape, first):
    on_python_36(first, shape)


@pytest.mark.slow
@pytest.mark.parametrize("shape", OTHERS)
def test_every_other_shape_says_what_its_checkpoint_says(shape, others):
    on_this_python(others, shape)


@pytest.mark.slow
@pytest.mark.parametrize("shape", OTHERS)
def test_every_other_shape_says_the_same_in_fused_operators(shape, others):
    in_dialect_ort(others, shape)


@pytest.mark.slow
@python_36
@pytest.mark.parametrize("shape", OTHERS)
def test_on_python_36_every_other_shape_says_what_its_checkpoint_says(shape, others):
    on_python_36(others, shape)


def test_the_document_holds_what_was_measured_and_what_the_mappings_say():
    assert PATH.read_text("utf-8") == document(measured(), fused_measured()), REMAKE


def test_every_shape_was_measured_and_is_without_fault():
    shapes = measured()["shapes"]
    assert list(shapes) == list(SHAPES), REMAKE
    for shape, known in shapes.items():
        assert (known["equal"], known["equal_36"], known["findings"]) == (STEPS, STEPS, 0), shape
        assert known["texts"] == known["texts_tried"] > 300, shape


@pytest.mark.parametrize(
    "shape", [s if s in FIRST[:1] else pytest.param(s, marks=pytest.mark.slow) for s in WIDE]
)
def test_a_family_whose_heads_the_operator_turns_says_what_its_checkpoint_says(shape, tmp_path):
    width, dice = WIDE[shape]
    said, _ = save(shape, dice, tmp_path / "source", width)
    assert is_tested(said)
    found = measure_fused(said, tmp_path)
    assert found["equal"] == STEPS and found["error"] <= limit(WIDEST_ERROR)
    assert "turned inside" in found["form"][0]


def test_every_shape_was_measured_in_fused_operators():
    assert list(fused_measured()) == list(SHAPES), REMAKE
    for shape, known in fused_measured().items():
        assert known["equal"] == STEPS and known["error"] <= TOLERANCE, shape
