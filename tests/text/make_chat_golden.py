"""Write tests/data/chat/golden.json: what `transformers` renders from tests/text/chat_cases.py.

    .venv/bin/python -m tests.text.make_chat_golden

The goldens let Python 3.6, where today's `transformers` does not exist, be held against it. Run
this again after changing a case or a template.
"""

import datetime
import json
import os
from unittest import mock

from jinja2.exceptions import TemplateError
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast
from transformers.utils import chat_template_utils

from tests.text.chat_cases import (
    CONVERSATIONS,
    FOLDER,
    NOW,
    SPECIAL_TOKENS,
    VALUES,
    scraps,
    templates,
)

TOKENIZER = PreTrainedTokenizerFast(
    tokenizer_object=Tokenizer(models.WordLevel({"<s>": 0, "</s>": 1}, unk_token="</s>")),
    **SPECIAL_TOKENS,
)


# What the compiled template of jinja2 lets through.
_ERRORS = (TemplateError, TypeError, ValueError, LookupError, ArithmeticError, AttributeError)


class _StoppedClock(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return NOW


def reference(template, messages, **options):
    """What transformers renders, or {"error": what it says}."""
    options.setdefault("add_generation_prompt", True)
    try:
        with mock.patch.object(chat_template_utils, "datetime", _StoppedClock):
            return TOKENIZER.apply_chat_template(
                messages, chat_template=template, tokenize=False, **options
            )
    except _ERRORS as error:
        return {"error": str(error)}


def goldens():
    whole = {
        name: {
            case: reference(source, messages, **options)
            for case, (messages, options) in CONVERSATIONS.items()
        }
        for name, source in templates().items()
    }
    message = [{"role": "user", "content": "hi"}]
    return {"templates": whole, "scraps": [reference(one, message, **VALUES) for one in scraps()]}


def main():
    with open(os.path.join(FOLDER, "golden.json"), "w", encoding="utf-8") as file:
        json.dump(goldens(), file, ensure_ascii=False, indent=0)
        file.write("\n")


if __name__ == "__main__":
    main()
