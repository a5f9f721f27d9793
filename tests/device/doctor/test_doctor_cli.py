"""`python -m edgeformer doctor`: its exit status, its two outputs, and no library of ours."""

import json
import os
import subprocess
import sys

from edgeformer.__main__ import main
from edgeformer.cli import doctor
from edgeformer.device.doctor.findings import Finding
from tests import bundles

GOOD = Finding("board", "ok", "a Nano")
BAD = Finding("numpy", "blocks", "none", "needed", "pip install numpy")


def test_it_runs_here_without_importing_what_it_examines():
    code = (
        "import sys\nfor name in ('numpy', 'onnxruntime'): sys.modules[name] = None\n"
        "from edgeformer.__main__ import main\nsys.exit(main(['doctor', '--json', %r]))"
    )
    root = os.path.dirname(os.path.dirname(bundles.FOLDER))
    child = subprocess.run(
        [sys.executable, "-c", code % bundles.ROPE],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=dict(os.environ, PYTHONPATH=root),
        timeout=120,
    )
    data = json.loads(child.stdout.decode("utf-8"))
    facts = {found["topic"]: found["fact"] for found in data["findings"]}
    assert (child.returncode, child.stderr) == (0, b""), facts
    assert "computes" in facts["numpy"]
    assert "runs a graph" in facts["onnxruntime"]
    assert "tiny-rope" in facts["bundle"]


def test_a_finding_that_blocks_ends_with_1_and_all_are_printed(monkeypatch, capfd):
    monkeypatch.setattr("edgeformer.device.doctor.examine", lambda bundle: [GOOD, BAD])
    assert main(["doctor"]) == 1
    out, err = capfd.readouterr()
    assert out.splitlines()[1].split() == ["blocks", "numpy", "none"]
    assert "fix: pip install numpy" in out
    assert "1 of 2 findings block" in err
    assert main(["doctor", "--json"]) == 1
    assert json.loads(capfd.readouterr()[0])["counts"]["blocks"] == 1


def test_problems_and_notes_do_not_block(monkeypatch, capfd):
    others = [GOOD, BAD._replace(status="problem"), BAD._replace(status="note")]
    monkeypatch.setattr("edgeformer.device.doctor.examine", lambda bundle: others)
    assert main(["doctor"]) == 0
    assert doctor.parser().parse_args([]).bundle is None
