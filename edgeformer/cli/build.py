"""`build`: TensorRT engines for a bundle, on the device that will run them."""

import argparse
import re
from typing import Any, Optional, Tuple

from edgeformer.cli import console
from edgeformer.errors import EdgeformerError

MIB = 1 << 20


def parser() -> argparse.ArgumentParser:
    made = console.parser(
        "build",
        "Build TensorRT engines of a bundle for the GPU of this machine; they stay in the bundle's "
        "engines/ and are used by whatever runs it here. Engines that are there already are "
        "reported and not built again. Exit 0: the engines are there. 2: something to change.",
    )
    add = made.add_argument
    add("--precision", metavar="P", help="fp16, fp32 or int8 (default: fp16 from fp32 graphs)")
    add(
        "--layout",
        choices=("auto", "split", "shared"),
        default="auto",
        help="split: an engine for one token and one for chunks. shared: one for both, half the "
        "memory. auto (default): split if it fits, else shared",
    )
    add(
        "--past-rows",
        default="capacity",
        metavar="ROWS",
        help="sizes that the cache is given in: capacity (default), buckets, or numbers: 128,512",
    )
    add("--workspace", type=int, metavar="MIB", help="one workspace; default: 256, 128, 64, 512")
    add("--tactics", metavar="NAMES", help="sources of kernels, such as cublas; default: all")
    add("--memory", type=int, metavar="MB", help="memory to plan with, in place of what is free")
    add("--force", action="store_true", help="build what is there already, or refused")
    add("--prune", action="store_true", help="first remove engines that cannot be loaded here")
    return made


def run(arguments: argparse.Namespace) -> int:
    from edgeformer.bundle import Bundle
    from edgeformer.engines.building import build_engines
    from edgeformer.engines.here import foreign_sets, probe, prune
    from edgeformer.engines.needs import LAYOUTS
    from edgeformer.engines.wanted import WORKSPACES, Asked, past_rows

    bundle = Bundle.open(arguments.bundle)
    stored = {"fp32": "fp16", "int8-qdq": "int8"}
    precision = arguments.precision or stored.get(bundle.manifest.precision, "fp16")
    if precision not in ("fp16", "fp32", "int8"):
        raise EdgeformerError(f"--precision is {precision[:40]!r}; say fp16, fp32 or int8")
    if arguments.workspace is not None and not 1 <= arguments.workspace <= 1 << 16:
        raise EdgeformerError(f"--workspace is {arguments.workspace}; say 1 to {1 << 16} MiB")
    asked = Asked(
        precision,
        past_rows(arguments.past_rows, bundle.manifest.capacity),
        WORKSPACES if arguments.workspace is None else (arguments.workspace,),
        _tactics(arguments.tactics),
    )
    layouts = LAYOUTS if arguments.layout == "auto" else (arguments.layout,)
    available = _available(arguments.memory)
    here = probe(console.say)
    if arguments.prune:
        prune(bundle, here, console.say)
    built = build_engines(bundle, here, asked, layouts, available, arguments.force, console.say)
    for why in foreign_sets(bundle, here).values():
        console.say(f"not used here: {why} (--prune removes it)")
    _report(built)
    return 0


def _report(built: Any) -> None:
    engines = built.engines
    if not built.is_new:
        console.say("these engines are there already; --force builds them again")
    sizes = ", ".join(f"{e.file} {e.bytes / MIB:.1f} MiB" for e in engines.engines.values())
    flags = engines.flags
    pinned = sum(int(flags[name]) for name in flags if name.endswith("_fp32_layers"))
    console.say(
        f"engines/{engines.key}: {engines.precision}, {engines.layout}, {sizes}; "
        + (f"{pinned} layers in FP32; " if pinned else "")
        + "built in {} s, peak {:.0f} MiB".format(
            engines.build["seconds"], int(engines.build["peak_bytes"]) / MIB
        )
    )


def _available(memory: Optional[int]) -> int:
    from edgeformer import targets

    if memory is None:
        return targets.memory_available()
    if not 1 <= memory <= 1 << 24:
        raise EdgeformerError(f"--memory is {memory}; say 1 to {1 << 24} MB")
    return memory * MIB


def _tactics(text: Optional[str]) -> Tuple[str, ...]:
    if text is None:
        return ()
    if not re.match(r"\w+(,\w+)*\Z", text, re.ASCII):
        raise EdgeformerError(f"--tactics is {text[:60]!r}; say names such as cublas,cublas_lt")
    return tuple(sorted({name.upper() for name in text.split(",")}))
