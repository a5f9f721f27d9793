"""Our check of a document against the package `jsonschema`, document by damaged document."""

import copy
import random

from jsonschema import Draft7Validator

from edgeformer.bench import document as documents
from edgeformer.errors import EdgeformerError
from tests.bench.documents import document

VALUES = [None, True, -1, 0, 1, 2.5, "x", [], {}, [1], {"x": 1}]


def places(value):
    """Every (container, key) of a document."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in list(items):
        yield value, key
        if isinstance(item, (dict, list)):
            yield from places(item)


def accepts(made):
    try:
        documents.check(made)
    except EdgeformerError:
        return False
    return True


def test_the_schema_is_one():
    Draft7Validator.check_schema(documents.schema())


def test_both_accept_and_refuse_the_same_documents():
    """A value changed, removed or added, at every place of a document."""
    validator = Draft7Validator(documents.schema())
    draw = random.Random(7)
    assert accepts(document()) and validator.is_valid(document())
    total, refused = len(list(places(document()))), 0
    for number in range(total):
        made = document()
        container, key = list(places(made))[number]
        change = draw.choice(("set", "set", "remove", "add"))
        if change == "set":
            container[key] = copy.deepcopy(draw.choice(VALUES))
        elif change == "remove":
            del container[key]
        elif isinstance(container, dict):
            container["another"] = draw.choice(VALUES)
        else:
            container.append(draw.choice(VALUES))
        is_valid = validator.is_valid(made)
        assert accepts(made) == is_valid, (number, change, key)
        refused += not is_valid
    assert total > 150 and 0.2 * total < refused < 0.95 * total
