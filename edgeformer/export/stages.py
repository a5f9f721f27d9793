"""The progress of an export: a bar on stderr that names the stage at work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tqdm import tqdm


class Stages:
    """Called with the name of each stage as it begins."""

    def __init__(self, bar: tqdm) -> None:
        self.bar, self.text = bar, ""

    def __call__(self, text: str) -> None:
        self.text = text
        self.bar.set_description_str(text, refresh=False)
        self.bar.update()

    def inside(self, part: str) -> None:
        """What part of a long stage is at work."""
        self.bar.set_description_str(f"{self.text}: {part}")


@contextmanager
def stages(count: int, shown: bool) -> Iterator[Stages]:
    form = "{desc:<28}{bar:20} {n_fmt}/{total_fmt} [{elapsed}]"
    with tqdm(total=count, disable=not shown, leave=False, bar_format=form) as bar:
        yield Stages(bar)
