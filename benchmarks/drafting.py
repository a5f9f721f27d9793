"""What drafting gains, and that it changes no token: plain and drafted streams in turns.

    python benchmarks/drafting.py BUNDLE --draft lookup -o FILE.json

Each of 25 prompts to copy, edit or repeat JSON, and of 25 of free prose, is answered plain and
drafted, one after the other, in an order that alternates. Their tokens must be the same, or there
is no ratio. A ratio is the plain stream's time behind its first token by the drafted one's; medians
and quartiles of the pairs are told.
"""

import argparse
import json
import os
import sys
from statistics import median
from time import gmtime, strftime
from typing import Any, Dict, List, Optional

# This clone's, installed or not
sys.path.insert(1, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import edgeformer
from edgeformer.bench import conditions, worker
from edgeformer.cli.stdout import ends_well
from edgeformer.errors import EdgeformerError

PROMPTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "drafting_prompts.json")


@ends_well
def main(arguments: Optional[List[str]] = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        with open(PROMPTS, encoding="utf-8") as file:
            prompts = json.load(file)
        before = conditions.machine()
        with edgeformer.load(options.bundle, threads=options.threads) as model:
            before["packages"] = conditions.packages([{"packages": worker.packages()}])
            groups = {}
            for name in prompts:
                pairs = _pairs(model, prompts[name][: options.prompts], options)
                groups[name] = {"pairs": pairs, "summary": _summary(pairs)}
            document = {
                "made": strftime("%Y-%m-%dT%H:%M:%SZ", gmtime()),
                "machine": before,
                "name": model.bundle.manifest.name,
                "dialect": model.bundle.manifest.dialect,
                "precision": model.bundle.manifest.precision,
                "threads": model.backend.threads,
                "draft": options.draft,
                "tokens": options.tokens,
                "temperature": options.temperature,
                "groups": groups,
            }
    except EdgeformerError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    if options.output:
        with open(options.output, "w", encoding="utf-8") as file:
            json.dump(document, file, indent=1)
            file.write("\n")
    wrong = 0
    for name, group in groups.items():
        print(f"{name}: {_told(group['summary'])}")
        wrong += group["summary"]["different"]
    return 1 if wrong else 0


def _pairs(model: Any, prompts: List[str], options: argparse.Namespace) -> List[Dict[str, Any]]:
    found: List[Dict[str, Any]] = []
    for turn in range(options.rounds):
        for index, prompt in enumerate(prompts):
            ways = ["off", options.draft]
            if (turn + index) % 2:
                ways.reverse()
            answers = {way: _answer(model, prompt, way, options) for way in ways}
            plain, drafted = answers["off"], answers[options.draft]
            seconds = [sum(answer.stats.token_s) for answer in (plain, drafted)]
            stats = drafted.stats
            found.append(
                {
                    "prompt": index,
                    "same": plain.tokens == drafted.tokens,
                    "tokens": len(plain.tokens),
                    "plain_s": seconds[0],
                    "drafted_s": seconds[1],
                    "drafted": stats.drafted,
                    "accepted": stats.accepted,
                    "steps": stats.steps,
                    "estimate": stats.speedup,
                }
            )
            print(f"{index} {_line(found[-1])}", file=sys.stderr, flush=True)
    return found


def _answer(model: Any, prompt: str, way: str, options: argparse.Namespace) -> Any:
    asked: Dict[str, Any] = {"messages": [{"role": "user", "content": prompt}]}
    if options.plain_prompts:
        asked = {"prompt": prompt}
    sampling = {"temperature": options.temperature, "max_new_tokens": options.tokens, "seed": 1}
    return model.generate(draft=way, reuse="none", **asked, **sampling)


def _line(pair: Dict[str, Any]) -> str:
    ratio = pair["plain_s"] / pair["drafted_s"] if pair["drafted_s"] else float("nan")
    same = "the same" if pair["same"] else "OTHER"
    return (
        f"{pair['tokens']} tokens, {same}, {pair['accepted']} of {pair['drafted']} accepted, "
        f"{pair['steps']} steps, {ratio:.2f}"
    )


def _summary(pairs: List[Dict[str, Any]]) -> Dict[str, Any]:
    """No ratio where a token differs. A stream of one token has no time behind it."""
    different = sum(not pair["same"] for pair in pairs)
    timed = [pair for pair in pairs if pair["tokens"] > 1]
    summary: Dict[str, Any] = {"pairs": len(pairs), "different": different}
    if different or not timed:
        return summary
    ratios = sorted(pair["plain_s"] / pair["drafted_s"] for pair in timed)
    summary["median"] = median(ratios)
    summary["quartiles"] = [ratios[len(ratios) // 4], ratios[-1 - len(ratios) // 4]]
    summary["least"] = ratios[0]
    plain, drafted = (sum(pair[key] for pair in timed) for key in ("plain_s", "drafted_s"))
    summary["of_all_time"] = plain / drafted
    summary["drafted"] = sum(pair["drafted"] for pair in pairs)
    summary["accepted"] = sum(pair["accepted"] for pair in pairs)
    return summary


def _told(summary: Dict[str, Any]) -> str:
    if summary["different"]:
        return f"{summary['different']} of {summary['pairs']} answers have OTHER tokens: no ratio"
    if "median" not in summary:
        return "no answer of more than a token: no ratio"
    low, high = summary["quartiles"]
    return (
        f"{summary['pairs']} pairs, all tokens the same, {summary['median']:.2f} times as fast "
        f"(quartiles {low:.2f} to {high:.2f}, least {summary['least']:.2f}, of all time "
        f"{summary['of_all_time']:.2f}), {summary['accepted']} of {summary['drafted']} accepted"
    )


def _parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python benchmarks/drafting.py", description="Plain and drafted streams in turns."
    )
    add = made.add_argument
    add("bundle", metavar="BUNDLE")
    add("--draft", default="lookup", help="as of generate (default: lookup)")
    add("--tokens", type=int, default=64, help="of an answer at most (default: 64)")
    add("--prompts", type=int, default=25, help="of each kind (default: 25)")
    add("--rounds", type=int, default=1, help="of all prompts (default: 1)")
    add("--temperature", type=float, default=0.0, help="0: greedy (default)")
    add("--threads", type=int, help="of the CPU")
    add("--plain-prompts", action="store_true", help="no chat template")
    add("-o", dest="output", metavar="FILE", help="write the result as JSON")
    return made


if __name__ == "__main__":
    sys.exit(main())
