"""Run every attack on the renderer and print, as JSON, what came of it. A program of its own,
so that its memory can be measured: `python -m tests.text.chat_attacks`.
"""

import json
import os
import sys
import time

from edgeformer.errors import EdgeformerError
from edgeformer.text.chat import ChatTemplate
from tests.peak import peak_bytes
from tests.text.chat_cases import FOLDER

_NAMES = ["a%d" % number for number in range(4000)]
_MANY = ", ".join(_NAMES)
_AGAIN = "{%% for i in range(99999) %%}%s{%% endfor %%}"
HELLO = [{"role": "user", "content": "hi"}]


def attacks():
    """[(part of the error, template)]"""
    with open(os.path.join(FOLDER, "attacks.txt"), encoding="utf-8") as file:
        lines = [line.rstrip("\n").split("\t") for line in file if not line.startswith("#")]
    return [(expected, template) for expected, template in lines] + [
        ("too deeply", "{{ " + "(" * 30000 + "1" + ")" * 30000 + " }}"),
        ("too deeply", "{{ " + "1 + " * 10000 + "1 }}"),
        ("too deeply", "{{ " + "1 if " * 5000 + "1 }}"),
        ("too deeply", "{{ 1" + "|string" * 5000 + " }}"),
        ("too deeply", "{{ x" + ".a" * 20000 + " }}"),
        ("too deeply", "{% if 1 %}" * 5000 + "{% endif %}" * 4000),
        ("steps", "{% for i in [1, 2] %}" * 60 + "{% endfor %}" * 60),
        ("", "{{ " + "9" * 90000 + " }}"),  # each Python and each jinja2 says it its own way
        ("steps", _AGAIN % ("{% for " + _MANY + " in [] %}{% endfor %}")),
        ("steps", _AGAIN % ("{% with " + _MANY.replace(", ", " = 1, ") + " = 1 %}{% endwith %}")),
        ("steps", _AGAIN % ("{% macro m(" + _MANY + ") %}{% endmacro %}")),
        ("steps", "{% macro m(" + _MANY + ") %}{% endmacro %}" + _AGAIN % "{{ m() }}"),
        ("steps", _AGAIN % ("{% continue %}" + "".join("{% set " + n + " = 1 %}" for n in _NAMES))),
        ("the limit is 1024", "{{ 0x" + "f" * 90000 + " }}"),
        ("100000 characters", "x" * 200000),
        ("line 3", "a\n{% if x %}\n{% endfor %}"),
        ("line 2", "a\n{{ 'x }}"),
    ]


def main():
    results = []
    for _, template in attacks():
        start = time.process_time()  # other programs take none of it
        try:
            message = None
            ChatTemplate(template).render(HELLO)
        except EdgeformerError as error:
            message = str(error)
        results.append({"message": message, "seconds": time.process_time() - start})
    peak = peak_bytes() / 2**20
    json.dump({"results": results, "peak_mb": peak}, sys.stdout)


if __name__ == "__main__":
    main()
