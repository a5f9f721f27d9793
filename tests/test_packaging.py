"""What `pip install` makes of the repository."""

import email
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests import matrix

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel of the tracked files, so that nothing made here by hand gets into it."""
    source, made = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, stdout=subprocess.PIPE, check=True)
    for name in listed.stdout.decode("utf-8").split("\0"):
        if name.startswith("edgeformer/") or name in ("pyproject.toml", "README.md", "LICENSE"):
            target = source / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes((ROOT / name).read_bytes())
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "-w", str(made), str(source)], check=True)
    (path,) = made.iterdir()
    return source, zipfile.ZipFile(path)


def test_wheel_holds_every_file_of_the_package_and_only_those(wheel):
    source, archive = wheel
    expected = {
        path.relative_to(source).as_posix()
        for path in (source / "edgeformer").rglob("*")
        if path.is_file()
    }
    assert {name for name in archive.namelist() if ".dist-info/" not in name} == expected


def test_wheel_installs_on_the_nanos_python_and_asks_for_no_torch(wheel):
    _, archive = wheel
    (name,) = [name for name in archive.namelist() if name.endswith("/METADATA")]
    metadata = email.message_from_bytes(archive.read(name))
    assert metadata["Requires-Python"] == ">=3.6"
    mandatory = [need for need in metadata.get_all("Requires-Dist") if "extra ==" not in need]
    assert [need.split()[0] for need in mandatory] == ["numpy"], mandatory
    assert "py3-none-any" in archive.filename


@pytest.mark.slow
@pytest.mark.parametrize("version", ["3.6", "3.8", "3.10", "3.11", "3.13"])
def test_the_wheel_installs_on_every_python_and_runs(wheel, version, tmp_path):
    python = matrix.interpreter(version)
    assert python, f"NOT RUN: there is no Python {version} here"
    _, archive = wheel
    environment = tmp_path / "venv"
    subprocess.run([python, "-m", "venv", str(environment)], check=True)
    pip = [environment / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "-q"]
    if version == "3.6":  # JetPack's own pip is 9.0.1
        subprocess.run([*pip, "install", "pip==21.3.1"], check=True)
    subprocess.run([*pip, "install", "--no-deps", "--no-index", archive.filename], check=True)
    command = [environment / "bin" / "edgeformer", "--help"]
    if not command[0].exists():
        command = [environment / "bin" / "python", "-m", "edgeformer", "--help"]
    told = subprocess.run(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True, check=True)
    assert "generate" in told.stdout


def test_a_boards_archive_holds_wheel_script_and_bundle_and_is_always_the_same(wheel, tmp_path):
    _, archive = wheel
    for name in ("requirements/pack-board.sh", "jetson_setup.sh", "LICENSE"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "dist").mkdir()
    shutil.copy(archive.filename, tmp_path / "dist")
    (tmp_path / ".venv").symlink_to(ROOT / ".venv")
    shutil.copytree(ROOT / "tests" / "data" / "tiny-rope", tmp_path / "tiny")
    (tmp_path / "tiny" / "engines").mkdir()
    command = ["bash", "requirements/pack-board.sh", "tiny"]
    made = []
    for _ in range(2):
        subprocess.run(command, cwd=tmp_path, check=True, stderr=subprocess.DEVNULL)
        made.append((tmp_path / "dist" / "edgeformer-board-tiny.tar.gz").read_bytes())
    assert made[0] == made[1]
    with tarfile.open(tmp_path / "dist" / "edgeformer-board-tiny.tar.gz") as packed:
        names = {member.name.partition("/")[2] for member in packed if member.isfile()}
    bundle = {f"bundles/tiny/{p.name}" for p in (ROOT / "tests/data/tiny-rope").iterdir()}
    assert names == bundle | {
        "README.txt", "LICENSE", "jetson_setup.sh", Path(archive.filename).name
    }  # fmt: skip
    (tmp_path / "tiny" / "weights.bin").write_bytes(b"")
    told = subprocess.run(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    assert told.returncode == 2 and "weights.bin" in told.stderr
    told = subprocess.run([*command[:2], "x"], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    assert told.returncode == 2 and "x is no bundle" in told.stderr
