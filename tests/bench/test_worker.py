"""What is counted and what is timed, on a clock that only a scripted backend and text move."""

import pytest

import edgeformer
from edgeformer.bench import worker
from edgeformer.errors import EdgeformerError
from edgeformer.generation import stream
from edgeformer.model import Model
from tests import bundles
from tests.scripted import ScriptedBackend

END = 7
PROMPT, STEP, TEXT = 10.0, 1.0, 0.25  # seconds


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


class TimedBackend(ScriptedBackend):
    """Every token is an end token. A step takes 1 s a token, the first ever a minute."""

    def __init__(self, clock):
        ScriptedBackend.__init__(self, 4, tokens=[END], vocabulary=300)
        self.clock = clock

    def step(self, token_ids, positions, rows, want="logits"):
        self.clock.now += (STEP if len(token_ids) == 1 else PROMPT) + 60 * (not self.calls)
        return ScriptedBackend.step(self, token_ids, positions, rows, want)


class TimedText:
    """A tokenizer whose text takes a quarter of a second a token."""

    def __init__(self, clock):
        self.clock = clock

    def stream(self, show_special=False, after_text=False):
        return self

    def push(self, token):
        self.clock.now += TEXT
        return "x"

    def flush(self):
        return ""


@pytest.fixture
def model(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(worker, "perf_counter", clock)
    monkeypatch.setattr(stream, "perf_counter", clock)
    bundle = bundles.opened(bundles.ROPE, chunk=64, eos_token_ids=(END,))
    return Model(bundle, TimedBackend(clock), TimedText(clock))


def job(**changes):
    asked = {"prompt_tokens": [4, 9], "new_tokens": 6, "rows": [5, 20], "seed": 1}
    return dict(asked, **changes)


def test_n_tokens_are_n_minus_1_intervals_without_prompt_warm_up_or_a_stop_at_an_end(model):
    found = worker.measure(model, job(), lambda message: None)
    assert found["token_s"] == pytest.approx([STEP + TEXT] * 5)
    assert found["outside_s"] == pytest.approx([TEXT] * 5)


def test_the_first_step_ever_is_in_the_warm_up_and_nowhere_else(model):
    found = worker.measure(model, job(), lambda message: None)
    steps = worker.WARM_TOKENS - 1
    assert found["warmup_s"] == pytest.approx(60 + PROMPT + steps * STEP + (steps + 1) * TEXT)
    for length in ("4", "9"):  # one that takes so long is measured once
        assert found["first_token_s"][length] == pytest.approx([PROMPT + TEXT])


def test_rows_in_use_are_what_stands_in_the_cache_before_each_step(model):
    seen = []
    step = model.backend.step

    def noted(token_ids, positions, rows, want="logits"):
        if len(token_ids) == 1:
            seen.append((model.backend.cached, positions[0]))
        return step(token_ids, positions, rows, want)

    model.backend.step = noted
    del model.backend.calls[:]
    found = worker.measure(model, job(), lambda message: None)
    behind = 1 + worker.STEPS
    assert seen[-2 * behind :] == [(5, 5)] * behind + [(20, 20)] * behind
    assert found["rows_s"] == {"5": [STEP] * worker.STEPS, "20": [STEP] * worker.STEPS}


def test_phases_are_told_in_order_each_with_its_time(model):
    told = []
    worker.measure(model, job(), told.append)
    names = [message["phase"] for message in told]
    assert names == ["warm-up", "prefill", "decode", "rows", "end"]
    times = [message["at"] for message in told]
    assert times == sorted(times) and times[0] == 100


def test_a_prompt_is_the_same_for_a_seed_and_from_the_whole_vocabulary(model):
    ids = worker.prompt_ids(model, 4000, 1)
    assert ids == worker.prompt_ids(model, 4000, 1) != worker.prompt_ids(model, 4000, 2)
    vocabulary = model.bundle.manifest.model["vocab_size"]
    assert 0 <= min(ids) < max(ids) < vocabulary
    assert len(set(ids)) > 0.9 * vocabulary
    assert ids[:4] == worker.prompt_ids(model, 4, 1) == KNOWN


KNOWN = [37, 235, 72, 255]  # what numpy 1.19 and numpy 2 both draw


def test_fewer_tokens_than_asked_for_are_an_error_and_not_a_figure(model):
    with pytest.raises(EdgeformerError) as caught:
        worker.measure(model, job(new_tokens=500), lambda message: None)
    assert "500 tokens were asked for and 97 came (capacity)" in str(caught.value)


def test_a_step_that_is_made_slower_takes_that_share_longer(model):
    worker.slow_down(model.backend, 0.5)
    clock = worker.perf_counter
    step = clock.__call__

    def creeping():
        clock.now += 0.001
        return step()

    worker.perf_counter = creeping  # the fixture's monkeypatch puts it back
    started = clock.now
    model.backend.step([1], [0], [0], "token")
    assert clock.now - started == pytest.approx(60 + 1.5 * STEP + 30, abs=0.02)


def test_a_block_goes_on_where_the_last_one_ended_and_drops_its_first_tokens(model):
    """Streams of six tokens, five intervals each; the k-th step takes k ms more than a second."""
    step, told = model.backend.step, []
    clock = model.backend.clock

    def creeping(token_ids, positions, rows, want="logits"):
        if len(token_ids) == 1:
            creeping.count += 1
            clock.now += creeping.count / 1000
        return step(token_ids, positions, rows, want)

    creeping.count = -(worker.WARM_TOKENS - 1)
    model.backend.step = creeping
    orders = [(3, 3), (9, 3), (4, 1), (0, 0)]
    told_what = iter([{"tokens": tokens, "dropped": dropped} for tokens, dropped in orders])
    found = worker.measure(model, job(waits=True, rows=[]), told.append, lambda: next(told_what))
    kept = [7, 8, 9, 10, 11, 12, 14, 15, 16]  # of steps 1 to 3, 4 to 12 and 13 to 16
    assert found["token_s"] == pytest.approx([STEP + TEXT + k / 1000 for k in kept])
    assert found["outside_s"] == pytest.approx([TEXT] * len(kept))
    waits = [message["waits"] for message in told if "waits" in message]
    middles = [STEP + TEXT + k / 1000 for k in (2, 8, 14.5)]
    assert waits == [None] + [pytest.approx(middle) for middle in middles]
    assert [m.get("phase") for m in told][-2:] == ["rows", "end"]


def test_a_child_whose_parent_wants_nothing_more_ends(monkeypatch):
    class Nothing:
        class buffer:
            readline = staticmethod(lambda: b"")

    monkeypatch.setattr("sys.stdin", Nothing)
    with pytest.raises(SystemExit):
        worker.answering.ordered()


def test_a_prompt_that_is_asked_again_costs_what_it_did_before():
    with edgeformer.load(bundles.ROPE, threads=1) as model:
        model._eos_ids = frozenset()
        stats = [worker.streamed(model, [5] * 40, 2) for _ in range(2)]
        assert [one.reused_tokens for one in stats] == [0, 0]
        assert model.generate([5] * 40, max_new_tokens=1).stats.reused_tokens == 32
