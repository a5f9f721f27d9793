"""Documents that were read, put apart by the machine that made them."""

import os
import re
from typing import Any, Dict, List, NamedTuple, Tuple

from edgeformer.bench import document as documents
from edgeformer.bench import recompute
from edgeformer.bench.board import document as boards
from edgeformer.errors import EdgeformerError

Case = Dict[str, Any]
GIB = 1 << 30
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
MOST_NAME = 80


class Run(NamedTuple):
    """One document, with the number that stands for it in a report."""

    number: int
    path: str
    document: Dict[str, Any]

    @property
    def cases(self) -> List[Case]:
        return list(self.document["cases"])


class Machine(NamedTuple):
    """The runs of one machine. Figures of two machines never share a plot or a table."""

    name: str
    runs: List[Run]


def read(paths: List[str]) -> List[Run]:
    """The documents in these files, each checked; exit 2 with the first that is damaged."""
    if not paths:
        raise EdgeformerError("give result files: python benchmarks/compare.py A.json [B.json ...]")
    runs = []  # type: List[Run]
    for path in paths:
        for name, document in _documents(path):
            runs.append(Run(len(runs) + 1, name, document))
    return runs


def _documents(path: str) -> List[Tuple[str, Dict[str, Any]]]:
    """(name, document) of a bench, or of each bundle in a board's report."""
    parsed = documents.parsed(path)
    if not (isinstance(parsed, dict) and parsed.get("kind") == "board" and "bundles" in parsed):
        return [(path, documents.held(parsed, os.path.basename(path)))]
    boards.check(parsed, os.path.basename(path))
    bundles = parsed["bundles"]
    found = [(f"{path} {b['model']['name']}", b["bench"]) for b in bundles if b["bench"]]
    for name, document in found:
        recompute.hold(document, os.path.basename(name))
    if not found:
        reasons = "; ".join(shown(b["bench_error"] or "no reason given") for b in bundles)
        raise EdgeformerError(f"{os.path.basename(path)}: nothing was measured: {reasons}")
    return found


def by_machine(runs: List[Run]) -> List[Machine]:
    """In the order of their first run."""
    found = {}  # type: Dict[Tuple[Any, ...], List[Run]]
    for run in runs:
        found.setdefault(machine_key(run.document), []).append(run)
    return [Machine(machine_name(group[0].document), group) for group in found.values()]


def machine_key(document: Dict[str, Any]) -> Tuple[Any, ...]:
    """Equal where two documents speak of one kind of machine: what no setting changes."""
    machine = document["machine"]
    board = machine["board"]["model"] if machine["board"] else None
    memory = round(machine["memory_bytes"] / GIB)
    return board, machine["processor"], machine["architecture"], machine["cpus"], memory


def machine_name(document: Dict[str, Any]) -> str:
    machine = document["machine"]
    name = machine["board"]["model"] if machine["board"] else machine["processor"]
    memory = machine["memory_bytes"] / GIB
    return f"{shown(name)}, {machine['architecture']}, {machine['cpus']} CPUs, {memory:.3g} GiB"


def folder_name(document: Dict[str, Any]) -> str:
    """The machine as a name of a folder under benchmarks/results."""
    machine = document["machine"]
    name = machine["board"]["model"] if machine["board"] else machine["processor"]
    slug = re.sub("[^a-z0-9]+", "-", name.lower()).strip("-")[:60] or "machine"
    return f"{slug}-{machine['cpus']}cpu"


def shown(text: str) -> str:
    """Text of a document on one line, without what would turn or break it, cut where long."""
    plain = _CONTROL.sub(" ", text).strip()
    return plain if len(plain) <= MOST_NAME else plain[: MOST_NAME - 3] + "..."


def conditions(run: Run) -> List[Tuple[str, str]]:
    """Everything that a figure of this run depends on, in words."""
    document = run.document
    machine, settings = document["machine"], document["settings"]
    found = [
        ("machine", machine_name(document)),
        ("processor", shown(machine["processor"])),
        ("system", shown(machine["system"]) + (" (container)" if machine["container"] else "")),
        ("governor", shown(machine["governor"] or "not told")),
        ("huge pages", machine["huge_pages"] or "not told"),
        ("Python", shown(machine["python"])),
    ]
    if machine["board"]:
        board = machine["board"]
        locked = {True: "locked", False: "not locked", None: "not told"}[board["clocks_locked"]]
        found += [
            ("L4T", shown(board["l4t"] or "not told")),
            ("JetPack", shown(board["jetpack"] or "not told")),
            ("power mode", shown(board["power_mode"] or "not told")),
            ("clocks", locked),
        ]
    found += [(shown(k), shown(v)) for k, v in sorted(machine["packages"].items()) if v]
    if machine["glibc_tunables"]:
        found.append(("glibc tunables", shown(machine["glibc_tunables"])))
    found += [
        ("threads", " and ".join(map(str, sorted({case["threads"] for case in run.cases})))),
        ("rounds", str(settings["rounds"])),
        *_side_by_side(settings),
        ("new tokens", str(settings["new_tokens"])),
        ("prompt tokens", ", ".join(map(str, settings["prompt_tokens"]))),
        ("seed", str(settings["seed"])),
        ("load before", f"{machine['load_average'][0]:.2f}"),
        ("read bandwidth", _bandwidth(machine["bandwidth_bytes_per_s"])),
        ("edgeformer", shown(document["edgeformer"])),
        ("commit", (document["commit"] or "not told")[:12]),
        ("made", document["made"]),
    ]
    return found


def _side_by_side(settings: Dict[str, Any]) -> List[Tuple[str, str]]:
    """How the cases of a round took turns in decoding; nothing where they did not."""
    cut = settings.get("side_by_side")
    if cut is None:
        return []
    dropped, tokens = cut["dropped_tokens"], cut["block_tokens"]
    told = f"{cut['blocks']} blocks of {tokens} tokens, the first {dropped} dropped"
    return [("side by side", told)]


# What a reader must know beside any figure; the whole list stands once in the report.
_BESIDE = ("onnxruntime", "tensorrt", "Python", "power mode", "clocks", "threads", "rounds")
_BESIDE += ("side by side", "prompt tokens", "new tokens")


def beside(found: List[Run], *more: str) -> str:
    """The conditions of a plot, `more` of them where it asks for that; what runs do not share is
    told of each."""
    told = [dict(conditions(run)) for run in found]
    parts = [told[0]["machine"]]
    for key in _BESIDE + more:
        values = [one.get(key) for one in told]
        if set(values) == {None}:
            continue
        if len(set(values)) == 1:
            parts.append(f"{key} {values[0]}")
            continue
        each = [f"{value or 'none'} (run {run.number})" for value, run in zip(values, found)]
        parts.append(f"{key} {', '.join(each)}" if len(each) < 4 else f"{key} as listed below")
    for key in ("commit", "made"):
        values = sorted({one[key] for one in told})
        parts.append(f"{key} {values[0]}" + (f" to {values[-1]}" if len(values) > 1 else ""))
    if not all(run.document["complete"] for run in found):
        parts.append("not all runs are complete")
    return "; ".join(parts) + "."


def differences(runs: List[Run]) -> List[Tuple[str, List[str]]]:
    """Conditions that runs of one machine do not share: (which, one value for each run)."""
    expected = {"made", "load before", "read bandwidth", "commit", "machine"}
    told = [dict(conditions(run)) for run in runs]
    names = [key for key, _ in conditions(runs[0])] if runs else []
    names += [key for other in told[1:] for key in other if key not in names]
    found = []
    for name in dict.fromkeys(names):
        values = [one.get(name, "not loaded") for one in told]
        if name not in expected and len(set(values)) > 1:
            found.append((name, values))
    return found


def _bandwidth(found: Any) -> str:
    if not found:
        return "not probed"
    end = found["at_end"]
    until = f" to {end / 1e9:.1f}" if end is not None else ""
    return (
        f"{found['at_start'] / 1e9:.1f}{until} GB/s over {found['working_set_bytes'] / 1e6:.4g} MB,"
        f" {found['threads']} threads"
    )
