"""What `pip install` makes of the repository."""

import email
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

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
