"""`edgeformer.load` on real tiny bundles: golden text, prompts, seeds, and who owns the cache."""

import json
import struct

import numpy as np
import pytest

import edgeformer
from edgeformer import EdgeformerError, SamplingParams
from edgeformer.generation.golden import golden_mismatches
from tests import bundles


@pytest.fixture(scope="module")
def model():
    with edgeformer.load(bundles.ROPE, threads=1) as loaded:
        yield loaded


@pytest.fixture(scope="module")
def golden():
    return bundles.manifest_of(bundles.ROPE).golden


@pytest.mark.parametrize("path", bundles.BOTH)
def test_a_stream_gives_the_golden_tokens_and_their_text(path):
    golden = bundles.manifest_of(path).golden
    count = len(golden.greedy_ids)
    with edgeformer.load(path) as model:
        assert golden_mismatches(model.backend, model.bundle.manifest) == []
        model._eos_ids = frozenset()  # golden tokens run on behind an end token
        steps = list(model.stream(golden.prompt_ids, max_new_tokens=count))
        assert [step.token for step in steps] == list(golden.greedy_ids)
        assert "".join(step.text for step in steps) == model.tokenizer.decode(golden.greedy_ids)
        assert steps[-1].finish_reason == "length"
        assert steps[-1].stats.load_s == model.load_s > 0


def test_a_text_prompt_is_its_ids(model):
    ids = model.tokenizer.encode("the cat")
    assert model.prompt_ids("the cat") == ids
    assert model.generate("the cat", max_new_tokens=9).tokens == (
        model.generate(ids, max_new_tokens=9).tokens
    )


def test_a_stream_to_the_end_uses_every_row(model, golden):
    room = 100 - len(golden.prompt_ids) + 1
    model._eos_ids, kept = frozenset(), model._eos_ids
    try:
        whole = model.generate(golden.prompt_ids)
        full = model.generate([1] * 100)
    finally:
        model._eos_ids = kept
    assert (len(whole.tokens), whole.finish_reason) == (room, "capacity")
    assert whole.tokens[: len(golden.greedy_ids)] == golden.greedy_ids
    assert (len(full.tokens), full.finish_reason) == (1, "capacity")


def test_generate_joins_what_stream_gives(model):
    asked = {"temperature": 1.2, "seed": 11, "max_new_tokens": 30}
    steps = list(model.stream("the other", **asked))
    whole = model.generate("the other", **asked)
    assert whole.text == "".join(step.text for step in steps) == str(whole)
    assert whole.tokens == tuple(step.token for step in steps)
    assert whole.finish_reason == steps[-1].finish_reason
    assert whole.stats.new_tokens == len(steps)


def test_one_seed_gives_one_answer_whatever_ran_before(model):
    asked = {"temperature": 0.9, "seed": 1, "max_new_tokens": 25}
    first = model.generate("the cat", **asked).tokens
    others = {model.generate("the cat", **dict(asked, seed=seed)).tokens for seed in range(2, 8)}
    assert len(others | {first}) > 4
    stream = model.stream("here and there")  # cancelled half-way
    next(stream)
    stream.close()
    assert model.generate("the cat", **asked).tokens == first
    model.generate("a much longer prompt than the one before it " * 2, max_new_tokens=3)
    assert model.generate("the cat", **asked).tokens == first
    with edgeformer.load(bundles.ROPE, threads=1) as other:
        assert other.generate("the cat", **asked).tokens == first


def test_a_stream_without_a_seed_tells_the_one_that_repeats_it(model):
    first = model.generate("the cat", temperature=1.5, max_new_tokens=20)
    asked = {"temperature": 1.5, "max_new_tokens": 20, "seed": first.stats.seed}
    assert model.generate("the cat", **asked).tokens == first.tokens


def test_temperature_0_ignores_the_seed(model):
    answers = {model.generate("the", seed=s, max_new_tokens=9).tokens for s in (None, 1, 2)}
    assert len(answers) == 1


def test_two_models_run_side_by_side(golden):
    count = 20
    with edgeformer.load(bundles.ROPE) as a, edgeformer.load(bundles.ROPE) as b:
        pairs = zip(a.stream(golden.prompt_ids), b.stream(golden.prompt_ids))
        found = [(x.token, y.token) for _, (x, y) in zip(range(count), pairs)]
    assert found == [(t, t) for t in golden.greedy_ids[:count]]


def test_interleaved_streams_of_one_model_end_in_an_error(model, golden):
    first, second = model.stream("the cat"), model.stream(golden.prompt_ids)
    next(first)
    tokens = [next(second).token]
    with pytest.raises(EdgeformerError) as caught:
        next(first)
    assert "load the bundle twice" in str(caught.value)
    tokens += [next(second).token for _ in range(9)]
    assert tuple(tokens) == golden.greedy_ids[:10]


def test_ctrl_c_in_a_step_leaves_the_model_usable(golden):
    with edgeformer.load(bundles.ROPE) as model:
        whole_step = model.backend.step

        def interrupted(token_ids, positions, rows, want):
            output = whole_step(token_ids, positions, rows, want)
            if positions[-1] == 30:
                raise KeyboardInterrupt
            return output

        model.backend.step = interrupted
        stream = model.stream(golden.prompt_ids)
        with pytest.raises(KeyboardInterrupt):
            list(stream)
        assert stream.finish_reason == "cancelled"
        assert stream.stats.new_tokens > 5
        model.backend.step = whole_step
        assert model.generate(golden.prompt_ids, max_new_tokens=9).tokens == golden.greedy_ids[:9]


def test_parameters_come_from_the_bundle_then_params_then_keywords(tmp_path):
    path = bundles.copied(bundles.ROPE, tmp_path)

    def change(data):
        data["sampling"].update(temperature=0.5, top_k=7, top_p=0.9, repetition_penalty=1.2)
        data["sampling"].update(min_p=0.05, typical_p=0.8, no_repeat_ngram_size=3)

    bundles.edited(path, change)
    with edgeformer.load(path) as model:
        wanted = SamplingParams(
            temperature=0.5,
            top_k=7,
            top_p=0.9,
            min_p=0.05,
            typical_p=0.8,
            repetition_penalty=1.2,
            no_repeat_ngram_size=3,
        )
        assert model.defaults == wanted
        same = model.generate("the", wanted, max_new_tokens=9, seed=4).tokens
        assert model.generate("the", max_new_tokens=9, seed=4).tokens == same
        assert model.generate("the", max_new_tokens=1, temperature=0).stats.seed is None
        assert model.generate("the", max_new_tokens=1).stats.seed is not None
        params = SamplingParams(max_new_tokens=4)
        assert model.generate("the", params).stats.seed is None
        assert len(model.generate("the", params, max_new_tokens=2).tokens) == 2


def test_an_unknown_keyword_is_refused_with_the_known_ones(model):
    with pytest.raises(EdgeformerError) as caught:
        model.stream("the", max_tokens=3)
    assert "max_tokens" in str(caught.value)
    assert "max_new_tokens" in str(caught.value)


@pytest.mark.parametrize(
    "prompt, named",
    [
        ([], "no tokens"),
        ([1, 280], "280"),
        ([-1], "-1"),
        ([2**70], str(2**70)),
        ([1, "2"], "item 1"),
        ([1.5], "item 0"),
        (b"the", "bytes"),
        (7, "int"),
        (None, "a prompt or messages"),
        ([1] * 101, "101"),
        ("the " * 400, "100"),
        ("a\udcff", "surrogate"),
    ],
)
def test_a_prompt_that_is_none_is_refused(model, prompt, named):
    with pytest.raises(EdgeformerError) as caught:
        model.stream(prompt)
    assert named in str(caught.value)


def test_numpy_ids_are_ids(model):
    ids = np.array([5, 6, 7], np.int64)
    assert model.prompt_ids(ids) == [5, 6, 7]
    assert [type(value) for value in model.prompt_ids(ids)] == [int] * 3


def test_an_empty_text_starts_from_the_end_token_or_is_refused(tmp_path):
    path = bundles.copied(bundles.ROPE, tmp_path)
    with edgeformer.load(path) as model:
        assert model.prompt_ids("") == [model.bundle.manifest.eos_token_ids[0]]
    bundles.edited(path, lambda data: data.update(eos_token_ids=[]))
    with edgeformer.load(path) as model, pytest.raises(EdgeformerError) as caught:
        model.stream("")
    assert "empty" in str(caught.value)


def test_a_begin_token_stands_once_before_a_text_and_not_before_ids(tmp_path):
    path = bundles.copied(bundles.ROPE, tmp_path)
    bundles.edited(path, lambda data: data["tokenizer"].update(bos_token_id=0))
    with edgeformer.load(path) as model:
        ids = model.tokenizer.encode("the")
        assert model.prompt_ids("the") == [0, *ids]
        assert model.prompt_ids("") == [0]
        typed = model.prompt_ids("<|endoftext|>the")
        assert typed.count(0) == 1
        assert model.prompt_ids([0, *ids]) == [0, *ids]


def test_a_bundle_without_a_tokenizer_takes_and_gives_ids(tmp_path, golden):
    path = bundles.copied(bundles.ROPE, tmp_path)
    bundles.edited(path, lambda data: data.update(tokenizer=None))
    with edgeformer.load(path) as model:
        whole = model.generate(golden.prompt_ids, max_new_tokens=5)
        assert (whole.tokens, whole.text) == (golden.greedy_ids[:5], "")
        for prompt, asked in [("the", {}), ([1], {"stop": "x"})]:
            with pytest.raises(EdgeformerError) as caught:
                model.stream(prompt, **asked)
            assert "no" in str(caught.value)
            assert "tokenizer" in str(caught.value)


def test_a_stream_of_a_closed_model_says_so():
    with edgeformer.load(bundles.ROPE) as model:
        stream = model.stream("the")
        next(stream)
    with pytest.raises(EdgeformerError) as caught:
        next(stream)
    assert "closed" in str(caught.value)
    with pytest.raises(EdgeformerError):
        model.generate("the")


def test_a_changed_weight_changes_golden_tokens_and_says_where(tmp_path):
    path = bundles.copied(bundles.ROPE, tmp_path)
    weights = bytearray(bundles.content_of(path, "weights.bin"))
    for offset in range(0, 36000, 4):
        value = struct.unpack_from("<f", weights, offset)[0]
        struct.pack_into("<f", weights, offset, -value)
    bundles.replace_file(path, "weights.bin", bytes(weights))
    with edgeformer.load(path) as model:
        wrong = golden_mismatches(model.backend, model.bundle.manifest)
    greedy = bundles.manifest_of(path).golden.greedy_ids
    assert 0 < len(wrong) <= len(greedy)
    for mismatch in wrong:
        assert mismatch.expected == greedy[mismatch.step] != mismatch.found
        assert mismatch.margin > 0


def test_golden_steps_are_fed_the_golden_text_and_not_what_was_found(model, golden):
    altered = list(golden.greedy_ids[:40])
    altered[5] ^= 1
    manifest = model.bundle.manifest._replace(golden=golden._replace(greedy_ids=tuple(altered)))
    wrong = golden_mismatches(model.backend, manifest)
    ids = [*golden.prompt_ids, *altered[:-1]]
    model.backend.truncate(0)
    likeliest = [model.backend.step([t], [i], [0], "token").tokens[0] for i, t in enumerate(ids)]
    likeliest = likeliest[len(golden.prompt_ids) - 1 :]
    assert [(m.step, m.found) for m in wrong] == [
        (i, token) for i, token in enumerate(likeliest) if token != altered[i]
    ]
    assert wrong[0].step == 5
    assert len(wrong) > 1


def test_the_library_prints_nothing(capfd, model):
    model.generate("the cat", max_new_tokens=3)
    with pytest.raises(EdgeformerError):
        model.stream([999])
    assert capfd.readouterr() == ("", "")


def test_stats_are_json(model):
    stats = model.generate("the", max_new_tokens=3, temperature=1.0).stats
    assert json.loads(json.dumps(stats._asdict()))["new_tokens"] == 3


@pytest.mark.parametrize("asked", [True, False])
@pytest.mark.parametrize("backend", ["ort", "auto"])
def test_a_cuda_graph_asked_of_onnxruntime_is_an_error(backend, asked):
    with pytest.raises(EdgeformerError, match="about TensorRT, but this would run on onnxruntime"):
        edgeformer.load(bundles.ROPE, backend, cuda_graph=asked)


def test_a_cuda_graph_is_true_false_or_none():
    with pytest.raises(EdgeformerError, match="cuda_graph is 'no'"):
        edgeformer.load(bundles.ROPE, cuda_graph="no")
