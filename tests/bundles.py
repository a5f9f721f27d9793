"""The committed bundles of the device tests, and ways to damage a copy of one.

`python -m tests.export.make_bundles` makes them again, on the host.
"""

import hashlib
import json
import os
import shutil

from edgeformer.bundle import Bundle
from edgeformer.manifest import Manifest, parse_manifest

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")
# rope, grouped heads, a window, byte-level BPE; capacity 100: two buckets, and not a whole one
ROPE = os.path.join(FOLDER, "tiny-rope")
# learned positions, LayerNorm, characters; capacity 32: less than one bucket
LEARNED = os.path.join(FOLDER, "tiny-learned")
BOTH = (ROPE, LEARNED)
# the model of tiny-rope again: its embedding is looked up outside the graphs, or all is float16
HOST = os.path.join(FOLDER, "tiny-host")
HALF = os.path.join(FOLDER, "tiny-half")
# ... or its weights have 8 bits, in operators that onnxruntime 1.10 does not have
BLOCKS = os.path.join(FOLDER, "tiny-blocks")
# ... or it is one graph of onnxruntime's fused operators, which turn its wider heads themselves, or
# learned positions are added before them
FUSED = os.path.join(FOLDER, "tiny-fused")
FUSED_LEARNED = os.path.join(FOLDER, "tiny-fused-learned")
# ... or its products are int8, their inputs rounded at each step: onnxruntime 1.10 runs that
INT8 = os.path.join(FOLDER, "tiny-int8")
# rope, and a window in every layer, so that rows can be given up; 48 rows, 160 positions
RING = os.path.join(FOLDER, "tiny-ring")


def copied(source, folder):
    """A copy that a test may damage; its path."""
    target = os.path.join(str(folder), "bundle")
    shutil.copytree(source, target)
    return target


def read_json(bundle):
    with open(os.path.join(bundle, "manifest.json"), encoding="utf-8") as file:
        return json.load(file)


def write_json(bundle, data):
    with open(os.path.join(bundle, "manifest.json"), "w", encoding="utf-8") as file:
        json.dump(data, file)


def edited(bundle, change):
    """Rewrite the manifest by `change(data)`, without any check."""
    data = read_json(bundle)
    change(data)
    write_json(bundle, data)


def replace_file(bundle, name, content):
    """New bytes for a file, and a manifest that agrees: what an attacker would ship."""
    with open(os.path.join(bundle, name), "wb") as file:
        file.write(content)

    def change(data):
        digest = hashlib.sha256(content).hexdigest()
        data["files"][name] = {"bytes": len(content), "sha256": digest}

    edited(bundle, change)


def content_of(bundle, name):
    with open(os.path.join(bundle, name), "rb") as file:
        return file.read()


def manifest_of(bundle):
    return parse_manifest(read_json(bundle))


def opened(bundle, **changes):
    """An open bundle whose manifest differs in these keys, for limits that no file has."""
    found = Bundle.open(bundle)
    manifest = found.manifest._replace(**changes)
    assert isinstance(manifest, Manifest)
    return Bundle(found.path, manifest)
