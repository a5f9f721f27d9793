"""Write tests/data/chat/ids.json: the ids that `transformers` gives the chats of chat_id_cases.py.

    .venv/bin/python -m tests.text.make_chat_ids

A control token in a message is none for us. So the reference is given a tokenizer and a template
whose control tokens have other names, which nobody types; ids do not tell names apart.
"""

import functools
import json
from unittest import mock

from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast
from transformers.utils import chat_template_utils

from tests.text.chat_id_cases import (
    CASES,
    PATH,
    checksum,
    conversations,
    document_of,
    named_tokens,
    template_of,
)
from tests.text.make_chat_golden import _ERRORS, _StoppedClock


@functools.lru_cache(maxsize=None)
def reference(case, renamed):
    """The case's (tokenizer, template) for transformers, with its own control tokens or others."""
    document, template, named = document_of(case), template_of(case), named_tokens(case)
    text = json.dumps(document, ensure_ascii=False)
    contents = [entry["content"] for entry in document["added_tokens"] if entry["special"]]
    for index, old in enumerate(sorted(contents, key=len, reverse=True)):
        if renamed:
            new = "\ue000%02d\ue001" % index
            text = text.replace(json.dumps(old, ensure_ascii=False), json.dumps(new))
            template = template.replace(old, new)
            named = {key: new if token == old else token for key, token in named.items()}
    return PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(text), **named), template


def reference_ids(case, conversation, renamed):
    """What transformers gives, None where it refuses the messages."""
    tokenizer, template = reference(case, renamed)
    messages, options = conversations(case)[conversation]
    try:
        with mock.patch.object(chat_template_utils, "datetime", _StoppedClock):
            return tokenizer.apply_chat_template(
                messages,
                chat_template=template,
                tokenize=True,
                add_generation_prompt=True,
                return_dict=False,
                **options,
            )
    except _ERRORS:
        return None


def goldens():
    found = {}
    for case in CASES:
        found[case] = {}
        for conversation in conversations(case):
            ids = reference_ids(case, conversation, renamed=True)
            found[case][conversation] = None if ids is None else checksum(ids)
    return found


def main():
    with open(PATH, "w", encoding="utf-8") as file:
        json.dump(goldens(), file, indent=0)
        file.write("\n")


if __name__ == "__main__":
    main()
