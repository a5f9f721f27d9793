"""The model in every engine's own form: made once, by each engine's own tool, and kept.

A form is made in a folder beside its place and renamed, so that half of one is never found.
"""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import List, NamedTuple, Optional

from benchmarks.peers.environments import OURS, ROOT, Environments, child_environment, last_lines
from edgeformer.errors import EdgeformerError

MAKING = ["-m", "benchmarks.peers.making"]
LLAMA = ["-m", "benchmarks.quantization.llama_gguf", "{needed}", "{target}"]
GENAI = ["-m", "onnxruntime_genai.models.builder", "-i", "{needed}", "-o", "{target}"]
GENAI += ["-e", "cpu", "-c", "{target}.work", "-p"]
CT2 = ["-m", "ctranslate2.converters.transformers", "--model", "{needed}"]
CT2 += ["--output_dir", "{target}", "--quantization"]
OPTIMUM = ["-m", "optimum.exporters.onnx", "--model", "{needed}"]
OPTIMUM += ["--task", "text-generation-with-past", "{target}"]
OPTIMUM_INT8 = ["-m", "benchmarks.peers.workers.optimum_onnx", "{needed}", "{target}"]
BUNDLE = ["-m", "edgeformer.export", "--model", "{model}", "--capacity", "{capacity}"]
BUNDLE += ["-o", "{target}", "--force", "--precision"]
# 8 bits in blocks of 32 beside llama.cpp's: what the builder's default is, written out.
BLOCKS = ["--extra_options", "block_size=32", "accuracy_level=4"]


class Form(NamedTuple):
    environment: str
    needs: Optional[str]  # another form; None: the model itself
    command: List[str]


FORMS = {
    "hf": Form(OURS, None, [*MAKING, "hf", "{model}", "{target}"]),
    "ids.json": Form(OURS, None, [*MAKING, "ids", "{model}", "{target}"]),
    "f32.gguf": Form(OURS, None, [*MAKING, "gguf", "{model}", "{target}"]),
    "f16.gguf": Form("llama.cpp", "f32.gguf", [*LLAMA, "f16"]),
    "q8_0.gguf": Form("llama.cpp", "f32.gguf", [*LLAMA, "q8_0"]),
    "q4_0.gguf": Form("llama.cpp", "f32.gguf", [*LLAMA, "q4_0"]),
    "q4_1.gguf": Form("llama.cpp", "f32.gguf", [*LLAMA, "q4_1"]),
    "q4_k_m.gguf": Form("llama.cpp", "f32.gguf", [*LLAMA, "q4_k_m"]),
    "genai-fp32": Form("onnxruntime-genai", "hf", [*GENAI, "fp32"]),
    "genai-int8": Form("onnxruntime-genai", "hf", [*GENAI, "int8", *BLOCKS]),
    "genai-int4": Form("onnxruntime-genai", "hf", [*GENAI, "int4", *BLOCKS]),
    "ct2-float32": Form("ctranslate2", "hf", [*CT2, "float32"]),
    "ct2-int8": Form("ctranslate2", "hf", [*CT2, "int8"]),
    "optimum-fp32": Form("optimum-onnx", "hf", OPTIMUM),
    "optimum-int8": Form("optimum-onnx", "optimum-fp32", OPTIMUM_INT8),
    "bundle-fp32": Form(OURS, None, [*BUNDLE, "fp32", "--target", "cpu"]),
    "bundle-int8-dynamic": Form(OURS, None, [*BUNDLE, "int8-dynamic", "--target", "jetson-nano"]),
    "bundle-n8": Form(OURS, None, [*BUNDLE, "n8", "--target", "cpu"]),
    "bundle-n4": Form(OURS, None, [*BUNDLE, "n4", "--target", "cpu"]),
}


def environments_of(names: List[str]) -> List[str]:
    """Those that make these forms."""
    found = []
    for name in names:
        form = FORMS[name]
        found.append(form.environment)
        if form.needs is not None:
            found += environments_of([form.needs])
    return found


class Forms:
    """Of one model. `folder` keeps them, under the model's name and its hash."""

    def __init__(self, model: str, capacity: int, folder: Path, python: Environments) -> None:
        self.model, self.capacity, self.python = Path(model), capacity, python
        self.sha256 = digest(self.model)
        self.folder = folder.resolve() / f"{self.model.stem}-{self.sha256[:12]}"

    def make(self, name: str) -> Path:
        """Its place; made first where it is not there."""
        form = FORMS[name]
        size = f"-{self.capacity}" if "{capacity}" in form.command else ""
        place = self.folder / f"{name}{size}"
        if place.exists():
            return place
        needed = self.make(form.needs) if form.needs else self.model.resolve()
        self.folder.mkdir(parents=True, exist_ok=True)
        made = place.with_name(f"making-{os.getpid()}-{place.name}")
        try:
            self._build(name, needed, made)
            if not place.exists():  # or another run was quicker
                made.rename(place)
        finally:
            _remove(made)
            _remove(Path(f"{made}.work"))
        return place

    def _build(self, name: str, needed: Path, target: Path) -> None:
        form = FORMS[name]
        words = {"model": self.model.resolve(), "needed": needed, "target": target}
        words["capacity"] = self.capacity
        command = [self.python.python(form.environment)]
        command += [part.format(**words) for part in form.command]
        child = subprocess.run(
            command,
            cwd=str(ROOT),
            env=child_environment(os.cpu_count() or 1),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        if child.returncode or not target.exists():
            said = last_lines(child.stdout.decode("utf-8", "replace"))
            raise EdgeformerError(f"{name} could not be made (exit {child.returncode}): {said}")


def size_of(path: Path) -> int:
    """Bytes of a file, or of all files of a folder."""
    files = [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file()]
    return sum(p.stat().st_size for p in files)


def digest(path: Path) -> str:
    """sha256 of a file, or of the names and contents of a folder."""
    if not path.exists():
        raise EdgeformerError(f"`{path}` does not exist; give a checkpoint folder or a GGUF file")
    total = hashlib.sha256()
    files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
    for file in files:
        if path.is_dir():
            total.update(str(file.relative_to(path)).encode())
        with open(str(file), "rb") as opened:
            for block in iter(lambda: opened.read(1 << 20), b""):
                total.update(block)
    return total.hexdigest()


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(str(path))
    elif path.exists():
        path.unlink()
