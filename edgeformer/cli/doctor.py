"""`doctor`: what this machine has, what is wrong with it, and the commands that put it right."""

import argparse
import json

from edgeformer.cli import console


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python -m edgeformer doctor",
        description="Look at board, release, libraries, memory, power and heat, and with BUNDLE at "
        "a bundle and its engines. numpy and the like are tried out in processes of their own, so "
        "one that crashes is a finding. Exit 0: nothing blocks. 1: something does.",
        allow_abbrev=False,
    )
    made.add_argument("bundle", metavar="BUNDLE", nargs="?", help="bundle directory to look at")
    made.add_argument("--json", action="store_true", help="the findings as one JSON document")
    return made


def run(arguments: argparse.Namespace) -> int:
    from edgeformer.device.doctor import examine
    from edgeformer.device.doctor.findings import BLOCKS, as_json, described

    findings = examine(arguments.bundle)
    text = json.dumps(as_json(findings)) + "\n" if arguments.json else described(findings)
    console.TextOut().write(text)
    blocking = sum(finding.status == BLOCKS for finding in findings)
    if blocking:
        console.say(f"{blocking} of {len(findings)} findings block: nothing runs before those")
    return 1 if blocking else 0
