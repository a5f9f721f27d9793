"""Does the benchmark itself tell the truth? The same bundle twice, and once with a known slowdown.

    python benchmarks/selftest.py BUNDLE [--runs 10] [--rounds 30] [--slower 0.05] [-o FILE]

Each run takes rounds, side by side, of three cases of one bundle: it, it again, and it with every
step made longer by a busy wait. Good are the runs whose interval between the first two contains
1.0, and those in which the third is found to be slower. Exit 1 where a run is not.
"""

import argparse
import json
import os
import sys
import time
from typing import Any, Dict, List, Optional, Tuple

# This clone's, installed or not
sys.path.insert(1, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from edgeformer.backends.threads import default_threads
from edgeformer.bench import conditions, document
from edgeformer.bench import statistics as st
from edgeformer.bench.cases import ROUNDS_SIDE_BY_SIDE, Asked, cases_of, settings_of
from edgeformer.bench.measure import told
from edgeformer.bench.rounds import Taken
from edgeformer.bench.side_by_side import take_side_by_side
from edgeformer.bench.summary import figures_of
from edgeformer.bundle import Bundle
from edgeformer.cli.stdout import ends_well
from edgeformer.device.monitor import Monitor
from edgeformer.errors import EdgeformerError
from edgeformer.wholefile import check_writable


@ends_well
def main(arguments: Optional[List[str]] = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        if options.output:
            check_writable(options.output)
        report = selftest(options)
    except EdgeformerError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    runs = report["runs"]
    same = sum(run["same"]["verdict"] == "no difference" for run in runs)
    found = sum(run["slower"]["verdict"] == "a faster" for run in runs)
    print(f"the same bundle twice: the interval contains 1.0 in {same} of {len(runs)} runs")
    print(f"{options.slower:.0%} slower: found in {found} of {len(runs)} runs")
    return 0 if same == found == len(runs) else 1


def selftest(options: argparse.Namespace) -> Dict[str, Any]:
    """Every run's figures and verdicts, with the conditions."""
    threads = options.threads or default_threads()
    (case,) = cases_of([Bundle.open(options.bundle)], ["ort"], threads)
    cases = [
        case,
        case._replace(name=case.name + ", again"),
        case._replace(name=case.name + ", slower", busy=options.slower),
    ]
    prompt = min(16, case.capacity // 2)
    settings = settings_of(Asked(options.rounds, options.new_tokens, [prompt], [1], 1, True), cases)
    report = {
        "machine": conditions.machine(),
        "commit": conditions.commit(),
        "model": case.model,
        "threads": threads,
        "settings": told(settings, Taken([], False)),
        "slower": options.slower,
        "runs": [],
    }
    for number in range(options.runs):
        run, packages = _run(cases, settings, f"run {number + 1} of {options.runs}")
        report["runs"].append(run)
        report["machine"]["packages"] = packages
        if options.output:  # after each run: all of them take long
            document.write(options.output, json.dumps(report, indent=1))
    return report


def _run(cases: Any, settings: Any, name: str) -> Tuple[Dict[str, Any], Dict[str, Any]]:
    """(figures and verdicts, versions of what computed them)"""
    print(name, file=sys.stderr, flush=True)
    load, began = [round(value, 2) for value in os.getloadavg()], time.perf_counter()
    with Monitor() as monitor:
        taken = take_side_by_side(cases, settings, monitor, lambda line: None)
    if taken.interrupted:
        raise KeyboardInterrupt
    for case in taken.cases:
        if case.error is not None:
            raise EdgeformerError(case.error)
    figures = [figures_of(case.rounds, "token_s", st.FLOOR) for case in taken.cases]
    same, slower = (st.compare(figures[0], other)._asdict() for other in figures[1:])
    for what, verdict in (("same", same), ("slower", slower)):
        low, high = verdict["low"] or 0, verdict["high"] or 0
        print(f"  {what:7} {low:.3f} to {high:.3f}: {verdict['verdict']}", file=sys.stderr)
    keys = ("token_s", "again_token_s", "slower_token_s")
    rounded = [[float(f"{value:.5g}") for value in values] for values in figures]
    made = dict(
        zip(keys, rounded),
        same=dict(same),
        slower=dict(slower),
        side_by_side=taken.side_by_side,
        load_average=load,
        seconds=round(time.perf_counter() - began, 1),
    )
    return made, conditions.packages([case.about for case in taken.cases])


def _parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python benchmarks/selftest.py",
        description="Is the same bundle the same, and is a slowdown of a known size found?",
    )
    add = made.add_argument
    add("bundle", metavar="BUNDLE")
    add("--runs", type=int, default=10, help="(10)")
    rounds = ROUNDS_SIDE_BY_SIDE
    add("--rounds", type=int, default=rounds, help=f"of each case in a run ({rounds})")
    add("--slower", type=float, default=0.05, help="share by which a step is longer (0.05)")
    add("--new-tokens", type=int, default=200, help="of a stream (200)")
    add("--threads", type=int, help="CPU threads (default: the fast cores)")
    add("-o", "--output", metavar="FILE", help="every figure and verdict, as JSON")
    return made


if __name__ == "__main__":
    sys.exit(main())
