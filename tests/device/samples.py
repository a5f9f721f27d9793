"""The published lines of tegrastats, by id."""

import os

PATH = os.path.join(os.path.dirname(__file__), "..", "data", "tegrastats.txt")


def read_samples():
    """{id: line}."""
    found, name = {}, None
    with open(PATH, encoding="ascii") as file:
        for line in file:
            if line.startswith("@"):
                name = line[1:].split("|")[0].strip()
            elif name and not line.startswith("#"):
                found[name], name = line.rstrip("\n"), None
    return found


SAMPLES = read_samples()
