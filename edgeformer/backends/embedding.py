"""The embedding's table of a bundle whose graphs take rows of it in place of token ids."""

from typing import Optional

import numpy as np

from edgeformer.bundle import Bundle
from edgeformer.errors import BundleError


def open_table(bundle: Bundle) -> "Optional[np.ndarray]":
    """The table, [vocab, d_model], mapped: of the file only rows that are used are ever read.

    None where the graphs look token ids up themselves.
    """
    place = bundle.manifest.embedding
    if place is None:
        return None
    path, shape = bundle.file(place.file), (place.rows, place.width)
    try:
        mapped = np.memmap(path, place.dtype, "r", place.offset, shape)
    except (OSError, ValueError) as error:
        raise BundleError(
            f"the embedding in {place.file} cannot be mapped: {error}; "
            "copy or export the bundle again"
        ) from None
    return mapped.view(np.ndarray)  # its rows come out as plain arrays, which is faster
