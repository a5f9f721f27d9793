"""One virtual environment an engine, made from pinned requirements, under `.peers/`."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Dict, List

from edgeformer.errors import EdgeformerError

ROOT = Path(__file__).resolve().parents[2]
REQUIREMENTS = Path(__file__).resolve().parent / "requirements"
OURS = "edgeformer"  # the environment that this runs in
INSTALL = "python -m benchmarks.peers install"


def names() -> List[str]:
    """Of every environment that can be installed."""
    return sorted(path.stem for path in REQUIREMENTS.glob("*.txt"))


class Environments:
    """Where the engines live. A mark beside each holds the pins that it was made from."""

    def __init__(self, folder: Path = ROOT / ".peers") -> None:
        self.folder = folder

    def python(self, name: str) -> str:
        if name == OURS:
            return sys.executable
        return str(self.folder / name / "bin" / "python")

    def lacks(self, name: str) -> bool:
        if name == OURS:
            return False
        mark = self._mark(name)
        return not mark.is_file() or mark.read_text() != _pins(name)

    def require(self, wanted: List[str]) -> None:
        """EdgeformerError with the one command that installs what is missing."""
        missing = sorted({name for name in wanted if self.lacks(name)})
        if missing:
            raise EdgeformerError(
                f"not installed in {self.folder}, or with other pins: {', '.join(missing)}; "
                f"install with: {INSTALL} {' '.join(missing)}"
            )

    def install(self, name: str) -> None:
        """Make it anew from its pins. Downloads, and may compile for a quarter of an hour."""
        if name not in names():
            raise EdgeformerError(
                f"no environment is called {name[:40]!r}; there are {', '.join(names())}"
            )
        self.folder.mkdir(parents=True, exist_ok=True)
        self._mark(name).unlink(missing_ok=True)
        place = self.folder / name
        _run([sys.executable, "-m", "venv", "--clear", str(place)])
        # torch's own index of CPU builds, say; without it some platforms get gigabytes for a GPU.
        index = os.environ.get("TORCH_INDEX")
        more = ["--extra-index-url", index] if index else []
        pins = str(REQUIREMENTS / f"{name}.txt")
        _run([self.python(name), "-m", "pip", "install", "-q", *more, "-r", pins])
        self._mark(name).write_text(_pins(name))

    def _mark(self, name: str) -> Path:
        return self.folder / f"{name}.installed"


def child_environment(threads: int) -> Dict[str, str]:
    """Of every child: it takes no more threads than it is told, and asks no hub for anything."""
    more = {"OMP_NUM_THREADS": str(threads), "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "0"}
    # A variable of this process's own Python must not follow into another one.
    kept = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
    return dict(kept, **more)


def last_lines(text: str, count: int = 6) -> str:
    """What an engine said last, for an error."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    return "\n".join(lines[-count:])[-1500:] or "it said nothing"


def _pins(name: str) -> str:
    return (REQUIREMENTS / f"{name}.txt").read_text()


def _run(command: List[str]) -> None:
    if subprocess.run(command, cwd=str(ROOT)).returncode:
        raise EdgeformerError(f"this failed, see above: {' '.join(command)}")
