"""What a manifest says of an embedding that no graph holds: where its table lies."""

from typing import Any, Dict, NamedTuple, Tuple

from edgeformer import strictjson as js
from edgeformer.contract import DTYPES
from edgeformer.errors import BundleError


class Embedding(NamedTuple):
    """Where a backend looks token ids up: the table [rows, width] lies in a file from `offset` on.

    The graphs' input `embeddings` takes its rows as they are; a multiplier stands in the graph.
    """

    file: str
    offset: int
    dtype: str
    rows: int
    width: int

    @property
    def bytes(self) -> int:
        return self.rows * self.width * (2 if self.dtype == "float16" else 4)


def embedding(value: Any, where: str) -> Embedding:
    entry = js.record(value, where, Embedding._fields)
    return Embedding(
        js.text(entry["file"], where + ".file"),
        js.integer(entry["offset"], where + ".offset", 0, 2**53),
        js.choice(entry["dtype"], where + ".dtype", tuple(DTYPES.values())),
        js.integer(entry["rows"], where + ".rows", 1, js.MOST_INT32),
        js.integer(entry["width"], where + ".width", 1, js.MOST_INT32),
    )


def check_table(
    table: Embedding, size: Tuple[int, int], dtype: str, files: Dict[str, int], where: str
) -> None:
    """Every row lies inside its file, and is what the graphs take. `files`: bytes by name."""
    if (table.rows, table.width) != size or table.dtype != dtype:
        raise BundleError(
            f"{where} is {table.dtype} [{table.rows}, {table.width}]; the graphs take rows of "
            f"{dtype} [{size[0]}, {size[1]}]"
        )
    if table.file not in files:
        raise BundleError(f"{where}.file {js.shown(table.file)} is not in files")
    end, found = table.offset + table.bytes, files[table.file]
    if end > found or table.offset % 4:
        raise BundleError(
            f"{where} lies at {table.offset} to {end} of {table.file}, which has {found} bytes"
        )
