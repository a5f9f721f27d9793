"""A Dockerfile taken to pieces: enough for ours."""

import os
import re

from tests.docker import machines

KINDS = ("pc", "r32", "r35", "r36")


def instructions(kind):
    """[(NAME, text)], with continued lines joined and comments off."""
    with open(os.path.join(machines.FOLDER, "Dockerfile." + kind), encoding="ascii") as file:
        lines = [line for line in file.read().splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\s*\\\n\s*", " ", "\n".join(lines))
    return [tuple(line.split(None, 1)) for line in joined.splitlines() if line]


def of(kind, name):
    return [text for word, text in instructions(kind) if word == name]


def arguments(kind):
    """Defaults of ARG."""
    return dict(text.partition("=")[::2] for text in of(kind, "ARG"))


def bases(kind):
    """What FROM names, with the defaults of ARG put in."""
    found = []
    for text in of(kind, "FROM"):
        name = text.split()[0]
        for key, value in arguments(kind).items():
            name = name.replace("${%s}" % key, value)
        found.append(name)
    return found


def environment(kind):
    """ENV of the last stage."""
    words = instructions(kind)
    last = max(number for number, (word, _) in enumerate(words) if word == "FROM")
    text = " ".join(text for word, text in words[last:] if word == "ENV")
    return {name: value.strip('"') for name, value in re.findall(r'(\w+)=("[^"]*"|\S+)', text)}


def copied(kind):
    """[(sources, target)] of files that come from the repository."""
    return [
        (text.split()[:-1], text.split()[-1])
        for text in of(kind, "COPY")
        if not text.startswith("--")
    ]
