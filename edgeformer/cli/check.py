"""`check`: every byte of a bundle, then its golden tokens on this machine."""

import argparse
from typing import Any

from edgeformer.cli import console
from edgeformer.errors import CheckFailed, EdgeformerError


def parser() -> argparse.ArgumentParser:
    made = console.parser(
        "check",
        "Read every byte of a bundle against its sha256, then compute its golden tokens here. "
        "Exit 0: all equal, or in a reduced precision within the bundle's limits. 1: they are not. "
        "2: the bundle is damaged or cannot run here.",
    )
    console.add_backend_options(made)
    return made


def run(arguments: argparse.Namespace) -> int:
    from edgeformer.backends import open_backend
    from edgeformer.bundle import Bundle

    bundle = Bundle.open(arguments.bundle)
    sizes = bundle.sizes()
    console.say(f"reading {len(sizes)} files, {sum(sizes.values()) / 1e6:.1f} MB ...")
    bundle.verify_hashes()
    console.say("every file is what the exporter wrote")

    golden = bundle.manifest.golden
    options = arguments.backend, arguments.threads, arguments.cuda_graph
    with open_backend(bundle, *options) as backend:
        from edgeformer.generation.golden import check_exact_steps, golden_run

        console.say(f"backend: {backend.reason}")
        precision = backend.precision
        found = golden_run(backend, bundle.manifest)
        if backend.exact_steps:
            console.say(check_exact_steps(backend, bundle.manifest))
    if precision != "fp32":
        _check_limits(found, golden.limits.get(precision), precision)
        return 0
    wrong, total = found.mismatches, found.steps
    if wrong:
        first = wrong[0]
        raise CheckFailed(
            f"{len(wrong)} of {total} golden tokens differ on this machine; the first at step "
            f"{first.step}: {first.found} where {first.expected} was expected, by a logit margin "
            f"of {first.margin:.3g}. If it is tiny, arithmetic here differs; if not, export again"
        )
    console.say(f"all {total} golden tokens are equal")
    return 0


def _check_limits(found: Any, limits: Any, precision: str) -> None:
    if limits is None:
        raise EdgeformerError(
            f"the bundle has no limits for {precision}, only what was found: {found}; "
            "export it again in the precision that the engines have"
        )
    wrong = found.beyond(limits)
    if wrong is not None:
        raise CheckFailed(
            f"{precision} is too far from PyTorch in fp32: {wrong} ({found}); build or export in "
            "another precision"
        )
    console.say(f"{precision}, within the bundle's limits: {found}")
