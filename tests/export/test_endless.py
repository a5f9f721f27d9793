"""An endless stream: 20,000 tokens in 64 rows, with the work of one token at each of them."""

import dataclasses
import os
import statistics
from time import perf_counter

import pytest

from edgeformer.export.build import Source, export_decoder
from edgeformer.nn.tokenizer_training import make_char_tokenizer
from tests.export.make_bundles import CHARACTERS, RING
from tests.generation.test_overflow import opened
from tests.nn.choices import random_decoder

TOKENS, CAPACITY = 20_000, 64


def resident():
    """Bytes of this process in memory."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.slow
def test_20_000_tokens_in_a_ring_are_those_of_a_cache_that_holds_them_all(tmp_path):
    config = dataclasses.replace(RING, max_positions=TOKENS + 100)
    path = str(tmp_path / "bundle")
    export_decoder(
        random_decoder(config, 4, 0.35),
        tmp_path / "bundle",
        name="endless",
        target="cpu",
        source=Source("random weights", license="none needed"),
        dialect="portable",
        capacity=CAPACITY,
        chunk=16,
        tokenizer_json=make_char_tokenizer(CHARACTERS),
        golden_prompt="the other ",
    )
    with opened(path) as small:
        found, seconds = [], []
        stream = small.stream("the other ", max_new_tokens=TOKENS, overflow="ring")
        started = perf_counter()
        for step in stream:
            found.append(step.token)
            seconds.append(perf_counter() - started)
            assert small.backend.cached <= CAPACITY
            if len(found) == 2000:
                before = resident()
            started = perf_counter()
        assert stream.finish_reason == "length"
        assert resident() - before < 8 << 20  # ids and times of the tokens, no rows
    assert len(found) == TOKENS
    assert len({tuple(found[at : at + 8]) for at in range(TOKENS - 8)}) > 1000  # it is no loop
    early, late = statistics.median(seconds[1000:3000]), statistics.median(seconds[-2000:])
    assert late < 1.5 * early
    with opened(path, capacity=TOKENS + 20) as large:
        assert large.generate("the other ", max_new_tokens=TOKENS).tokens == tuple(found)
