"""Answers of 10,000 tokens: what a token costs does not grow, counted in lines of Python."""

import random

import pytest

import edgeformer
from edgeformer import SamplingParams
from edgeformer.generation.stream import Stream
from edgeformer.text.decoders import read_decoder
from edgeformer.text.stream import TextStream
from tests import bundles
from tests.generation.test_stop import lines_of
from tests.scripted import ScriptedBackend

LONG = 10000
DECODERS = [
    None,
    {"type": "ByteLevel"},
    {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always"},
    {"type": "WordPiece", "prefix": "##", "cleanup": True},
    {"type": "BPEDecoder", "suffix": "</w>"},
    {
        "type": "Sequence",
        "decoders": [
            {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
            {"type": "ByteFallback"},
            {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 2, "stop": 0},
        ],
    },
]


class Forgetful(dict):
    """Texts of ids that are never known, so that each is decoded again."""

    def __setitem__(self, key, value):
        pass


@pytest.mark.parametrize("decoder", DECODERS, ids=lambda value: str(value and value["type"]))
def test_a_push_costs_the_same_after_10000_tokens(decoder):
    tokens = [
        "\u2581a",
        "b",
        "##c",
        " n't",
        "d</w>",
        "\u0120f",
        "<0xE6>",
        "<0x97>",
        "<0xA5>",
        "\u00e6",
    ]
    source = random.Random(4)
    order = [source.randrange(len(tokens)) for _ in range(100)]
    stages = read_decoder(decoder, "tokenizer.json")
    stream = TextStream(tokens.__getitem__, stages, True, Forgetful())

    def push_all():
        for each in order:
            stream.push(each)

    push_all()
    early = lines_of(push_all)
    for _ in range(LONG // len(order)):
        push_all()
    assert lines_of(push_all) == early > len(order)


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"stop": ["\n\n", "never there", "e" * 500]},
        {"temperature": 1.0, "seed": 1, "top_k": 5},
        {"repetition_penalty": 1.1, "no_repeat_ngram_size": 40, "frequency_penalty": 0.1},
        {"logprobs": 3},
        {"deadline_s": 1e6},
    ],
    ids=lambda asked: "-".join(asked) or "greedy",
)
def test_a_token_of_a_stream_costs_the_same_after_10000_others(asked):
    with edgeformer.load(bundles.ROPE, threads=1) as model:
        source = random.Random(5)
        script = [source.randrange(3, 280) for _ in range(LONG + 400)]
        backend = ScriptedBackend(3, script, vocabulary=280)
        params = SamplingParams(max_new_tokens=LONG + 400).changed(asked)
        text = model.tokenizer.stream(after_text=True)
        stream = Stream(backend, [5] * 3, params, frozenset([0]), 20000, 16, text)
    pieces = []

    def some():
        for _ in range(200):
            pieces.append(next(stream).text)

    some()
    early = lines_of(some)
    while len(pieces) < LONG:
        some()
    late = lines_of(some)
    assert 200 < late <= 1.1 * early  # they are other tokens, of other letters
