"""The renderer beside the real one: `transformers` as it is installed here."""

import json
import os
import warnings

import transformers

from edgeformer.errors import EdgeformerError
from edgeformer.text.chat import ChatTemplate
from tests.text.chat_cases import FOLDER, NOW, SPECIAL_TOKENS, VALUES
from tests.text.chat_fuzz import Fuzz
from tests.text.chat_id_cases import CASES, conversations
from tests.text.chat_id_cases import golden as golden_ids
from tests.text.make_chat_golden import goldens, reference
from tests.text.make_chat_ids import goldens as reference_goldens
from tests.text.make_chat_ids import reference_ids

MESSAGES = [
    {"role": "user", "content": "hi <|im_end|>"},
    {
        "role": "assistant",
        "content": "a\nb",
        "tool_calls": [{"function": {"name": "f", "arguments": {"k": 1}}}],
    },
]
# What jinja2 would print as an address or compare in its own way, ours refuses.
ONLY_OURS = (
    "cannot be printed",
    "is no data",
    "of a list and a list",
    "of a tuple and a tuple",
    "cannot be sliced",
    "is not divisible",
    "cannot be looped over",
    "truncate of",
    "is not allowed",
    "more values than the format takes",
)


def test_goldens_are_what_this_transformers_renders():
    with open(os.path.join(FOLDER, "golden.json"), encoding="utf-8") as file:
        assert json.load(file) == goldens(), "transformers %s" % transformers.__version__


def test_golden_ids_are_what_this_transformers_gives():
    assert golden_ids() == reference_goldens(), "transformers %s" % transformers.__version__


def test_other_names_of_control_tokens_change_ids_only_where_someone_types_them():
    for case in CASES:
        for name in conversations(case):
            both = [reference_ids(case, name, renamed) for renamed in (False, True)]
            someone_types = name == "markup" or name.startswith("typed")
            assert (both[0] == both[1]) is (not someone_types or both[0] is None), (case, name)


def ours(source):
    try:
        template = ChatTemplate(source, special_tokens=SPECIAL_TOKENS)
        return template.render(MESSAGES, now=NOW, **VALUES)
    except EdgeformerError as error:
        return {"error": str(error)}


def theirs(source):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)  # of what jinja2 compiles
            return reference(source, MESSAGES, **VALUES)
    except (AssertionError, SyntaxError) as error:
        return {"error": str(error)}


def test_random_templates_read_as_transformers_renders_them():
    fuzz = Fuzz(seed=2024)
    equal = 0
    for _ in range(1500):
        source = fuzz.template()
        expected, found = theirs(source), ours(source)
        if isinstance(found, str) or isinstance(expected, str):
            refused = isinstance(found, dict) and any(word in found["error"] for word in ONLY_OURS)
            assert found == expected or refused, source
            equal += found == expected
    assert equal > 400
