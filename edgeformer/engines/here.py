"""The GPU and the TensorRT of this machine, and the engines that are of others."""

import os
from typing import Callable, Dict, List, NamedTuple

from edgeformer.bundle import Bundle
from edgeformer.engines import store
from edgeformer.engines.attempt import run_child
from edgeformer.engines.failures import Tried, explained
from edgeformer.engines.record import FOLDER, RECORD, read_engine_set
from edgeformer.errors import BundleError

Say = Callable[[str], None]


class Here(NamedTuple):
    """What a probe found."""

    tensorrt: str
    name: str
    compute_capability: str
    has_flags: bool  # FP16 by a builder flag (up to 10)
    has_types: bool  # FP16 by the graph's own types (10 on)
    fast_int8: bool
    tactics: List[str]


def probe(say: Say) -> Here:
    """Ask a child, so that neither TensorRT nor CUDA takes memory in this process."""
    ended = run_child({"do": "probe"}, lambda line: None, "TensorRT")
    if "done" not in ended.answer:
        raise explained(ended, Tried("a graph", (), 0))
    here = Here(**ended.answer["done"])
    say(f"TensorRT {here.tensorrt} on {here.name}, compute capability {here.compute_capability}")
    return here


def foreign_sets(bundle: Bundle, here: Here) -> Dict[str, str]:
    """{folder of a set: why it cannot be loaded}: another bundle, TensorRT or GPU, or damaged."""
    folder, found = os.path.join(bundle.path, FOLDER), {}
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
        if name.startswith(".") or not os.path.lexists(os.path.join(folder, name, RECORD)):
            continue
        try:
            entry = read_engine_set(bundle, name)
        except BundleError as error:
            found[name] = str(error)
            continue
        made = (entry.tensorrt, entry.device.name, entry.device.compute_capability)
        if made != here[:3]:
            text = "{}/{} was built by TensorRT {} on {} ({})"
            found[name] = text.format(FOLDER, name, *made)
    return found


def prune(bundle: Bundle, here: Here, say: Say) -> None:
    """Remove the sets that cannot be loaded here."""
    folder = store.engines_folder(bundle)
    with store.only_builder(folder, say):
        store.sweep(folder, say)
        for name, why in sorted(foreign_sets(bundle, here).items()):
            say(f"removed: {why}")
            with store.disk_errors(folder):
                store.remove(os.path.join(folder, name))
