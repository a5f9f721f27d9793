"""N-gram models on disk: a JSON header, then raw arrays, in the layout of safetensors."""

import hashlib
import json
import os
import struct
from typing import Any, Dict, List, Tuple

import numpy as np

from edgeformer.errors import EdgeformerError
from edgeformer.generation.drafting.ngrams import BITS, LONGEST, Contexts, Ngrams, count_ngrams
from edgeformer.manifest import Manifest
from edgeformer.wholefile import write_whole

KIND = "edgeformer drafter 1"
MOST = 1 << 22  # contexts of one length that a file may hold
DEFAULT_MOST = 300000
MOST_HEADER = 1 << 16
DTYPES = {"keys": ("U64", "<u8"), "likeliest": ("I32", "<i4"), "hits": ("I32", "<i4")}
DTYPES["all"] = DTYPES["hits"]
AGAIN = "make it again with: python -m edgeformer drafter BUNDLE TEXT -o FILE"


def tokenizer_of(manifest: Manifest) -> str:
    """What two bundles have in common whose ids mean the same: a hash."""
    if manifest.tokenizer is None:
        raise EdgeformerError("this bundle has no tokenizer, which drafts need to be its own")
    file = manifest.files[manifest.tokenizer.file].sha256
    about = json.dumps([file, manifest.model["vocab_size"]])
    return hashlib.sha256(about.encode("ascii")).hexdigest()


def train(ids: np.ndarray, manifest: Manifest, most: int = DEFAULT_MOST) -> List[Contexts]:
    """Count the n-grams of a text."""
    if not 1 <= most <= MOST:
        raise EdgeformerError(f"the most contexts are {most}; it must be 1 to {MOST}")
    if manifest.model["vocab_size"] > 1 << BITS:
        raise EdgeformerError(
            f"the vocabulary has {manifest.model['vocab_size']} tokens, an n-gram file takes "
            f"{1 << BITS}; draft with lookup"
        )
    if len(ids) <= LONGEST:
        raise EdgeformerError(f"the text has {len(ids)} tokens; n-grams need more than {LONGEST}")
    return count_ngrams(ids, most)


def save(path: str, lengths: List[Contexts], manifest: Manifest) -> None:
    header: Dict[str, Any] = {}
    parts: List[bytes] = []
    end = 0
    for length, contexts in enumerate(lengths, 1):
        for name, array in contexts._asdict().items():
            kind, dtype = DTYPES[name]
            raw = np.ascontiguousarray(array, dtype).tobytes()
            offsets = [end, end + len(raw)]
            shape = [len(array)]
            header[f"{name}.{length}"] = {"dtype": kind, "shape": shape, "data_offsets": offsets}
            parts.append(raw)
            end += len(raw)
    digest = hashlib.sha256(b"".join(parts)).hexdigest()
    about = {"kind": KIND, "tokenizer": tokenizer_of(manifest), "sha256": digest}
    header["__metadata__"] = dict(about, name=manifest.name)
    text = json.dumps(header).encode("ascii")
    text += b" " * (-len(text) % 8)
    write_whole(path, [struct.pack("<Q", len(text)), text, *parts])


def load(path: str, manifest: Manifest) -> Ngrams:
    """The n-grams of a file, which must be of this bundle's tokenizer."""
    header, raw = _read(path)
    about = header.get("__metadata__")
    if not isinstance(about, dict) or about.get("kind") != KIND:
        raise _damaged(path, f"it is no {KIND}")
    if about.get("tokenizer") != tokenizer_of(manifest):
        raise EdgeformerError(
            f"the drafter {path!r} was made for {str(about.get('name'))[:60]!r}, whose tokenizer "
            f"is not that of {manifest.name!r}; {AGAIN}"
        )
    if about.get("sha256") != hashlib.sha256(raw).hexdigest():
        raise _damaged(path, "it has another sha256 than it says")
    vocabulary = manifest.model["vocab_size"]
    lengths, end = [], 0
    for length in range(1, LONGEST + 1):
        arrays = []
        for name in Contexts._fields:
            array = _array(path, header.get(f"{name}.{length}"), name, raw, end)
            end += array.nbytes
            arrays.append(array)
        contexts = Contexts(*arrays)
        _check(path, contexts, vocabulary)
        lengths.append(contexts)
    if end != len(raw) or len(header) != 1 + LONGEST * len(Contexts._fields):
        raise _damaged(path, "it holds more than its arrays")
    return Ngrams(lengths)


def _read(path: str) -> Tuple[Dict[str, Any], bytes]:
    # 20 bytes a context, and the header.
    largest = 8 + MOST_HEADER + MOST * 20 * LONGEST
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            begin = file.read(8)
            length = struct.unpack("<Q", begin)[0] if len(begin) == 8 else 0
            if not 2 <= length <= min(size - 8, MOST_HEADER) or size > largest:
                raise _damaged(path, f"it has {size} bytes and no header of a drafter")
            text, raw = file.read(length), file.read(largest)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise EdgeformerError(f"{path!r} cannot be read: {reason}") from None
    try:
        header = json.loads(text.decode("utf-8"))
    except (ValueError, RecursionError):
        raise _damaged(path, "its header is not JSON") from None
    if not isinstance(header, dict):
        raise _damaged(path, "its header is no object")
    return header, raw


def _array(path: str, entry: Any, name: str, raw: bytes, start: int) -> np.ndarray:
    kind, dtype = DTYPES[name]
    shape = entry.get("shape") if isinstance(entry, dict) else None
    if not isinstance(shape, list) or len(shape) != 1 or type(shape[0]) is not int:
        raise _damaged(path, f"it does not say how long {name} is")
    size = shape[0] * np.dtype(dtype).itemsize
    offsets = [start, start + size]
    wanted = {"dtype": kind, "shape": shape, "data_offsets": offsets}
    if not 0 <= shape[0] <= MOST or entry != wanted or start + size > len(raw):
        raise _damaged(path, f"its {name} are not where they belong")
    return np.frombuffer(raw, dtype, shape[0], start)


def _check(path: str, contexts: Contexts, vocabulary: int) -> None:
    sizes = {len(array) for array in contexts}
    if len(sizes) != 1:
        raise _damaged(path, f"its arrays have lengths {sorted(sizes)}")
    if sizes == {0}:
        return
    keys, likeliest, hits, totals = contexts
    if not (keys[1:] > keys[:-1]).all():
        raise _damaged(path, "its contexts are not in order")
    if not 0 <= int(likeliest.min()) <= int(likeliest.max()) < vocabulary:
        raise _damaged(path, f"it drafts tokens outside 0 to {vocabulary - 1}")
    if not (int(hits.min()) > 0 and (hits <= totals).all()):
        raise _damaged(path, "its counts are impossible")


def _damaged(path: str, why: str) -> EdgeformerError:
    return EdgeformerError(f"the drafter {path!r} cannot be used: {why}; {AGAIN}")
