"""A bundle: the directory that goes to the device. Read as if a stranger had sent it."""

import os
import re
import stat
from typing import Dict, Iterable, Optional

from edgeformer import strictjson
from edgeformer.errors import BundleError
from edgeformer.manifest import MANIFEST_FORMAT, Manifest, manifest_json, parse_manifest
from edgeformer.onnxfile import external_data

__all__ = ["MANIFEST_FORMAT", "Bundle", "Manifest", "manifest_json", "read_manifest"]

MANIFEST = "manifest.json"


def read_manifest(path: str) -> Manifest:
    """Read and check one manifest.json. The files that it names are not looked at."""
    return parse_manifest(strictjson.read(path, MANIFEST))


class Bundle:
    """A bundle whose files are all there, inside it and of the right size. Hashes come apart."""

    def __init__(self, path: str, manifest: Manifest) -> None:
        self.path = path
        self.manifest = manifest

    @classmethod
    def open(cls, path: str) -> "Bundle":
        """Check the manifest and every file's place and size: cheap, so it is always done."""
        path = os.fspath(path)
        manifest_path = os.path.join(path, MANIFEST)
        try:
            found = os.path.isdir(path)
        except ValueError:  # Python 3.6, where the path holds a NUL
            found = False
        if not found or not os.path.lexists(manifest_path):
            what = f"has no {MANIFEST}, so it is no bundle" if found else "is not a directory"
            raise BundleError(
                f"{path} {what}; make a bundle with: "
                "python -m edgeformer.export RECIPE.toml -o BUNDLE"
            )
        bundle = cls(path, read_manifest(manifest_path))
        for name, entry in bundle.manifest.files.items():
            bundle._check_file(name, entry.bytes)
        for graph in bundle.manifest.graphs.values():
            bundle._check_weights(graph.file)
        return bundle

    def file(self, name: str) -> str:
        """The path of a file that the manifest lists."""
        if name not in self.manifest.files:
            raise BundleError(f"{name} is not in the files of {self.path}")
        return os.path.join(self.path, *name.split("/"))

    def verify_hashes(self, names: Optional[Iterable[str]] = None) -> None:
        """Read every byte, or those of some files; an error names all files that are not what the
        exporter wrote."""
        wrong = []
        for name in sorted(self.manifest.files if names is None else names):
            entry = self.manifest.files[name]
            found = _sha256(self.file(name), name)
            if found != entry.sha256:
                wrong.append(f"{name} has sha256 {found[:12]}..., not {entry.sha256[:12]}...")
        if wrong:
            raise BundleError(f"{self.path}: {'; '.join(wrong)}; copy or export the bundle again")

    def sizes(self) -> Dict[str, int]:
        """Bytes of each file, manifest.json left out."""
        return {name: entry.bytes for name, entry in self.manifest.files.items()}

    def _check_file(self, name: str, size: int) -> None:
        path = self.path
        parts = name.split("/")
        for part in parts:
            path = os.path.join(path, part)
            try:
                mode = os.lstat(path).st_mode
            except FileNotFoundError:
                raise BundleError(
                    f"{name} is missing from {self.path}; copy or export the bundle again"
                ) from None
            except OSError as error:
                raise BundleError(f"{name} cannot be read: {error.strerror} ({path})") from None
            if stat.S_ISLNK(mode):
                raise BundleError(
                    f"{name} in {self.path} is a symbolic link; a bundle holds its files itself: "
                    "copy it with cp -RL"
                )
        if not stat.S_ISREG(mode):
            raise BundleError(f"{name} in {self.path} is not a regular file")
        found = os.lstat(path).st_size
        if found != size:
            raise BundleError(
                f"{name} in {self.path} has {found} bytes, the manifest says {size}; "
                "copy or export the bundle again"
            )

    def _check_weights(self, graph: str) -> None:
        """Every tensor that a graph keeps outside itself must lie inside a file of the bundle."""
        for entry in external_data(self.file(graph), graph):
            location = entry.get("location", "")
            if location not in self.manifest.files:
                raise BundleError(
                    f"{graph} takes weights from {location[:60]!r}, which is not a file of this "
                    "bundle; export it again"
                )
            size = self.manifest.files[location].bytes
            numbers = [entry.get("offset", "0"), entry.get("length", "")]
            if not all(re.match(r"\d{1,15}\Z", number, re.ASCII) for number in numbers):
                raise BundleError(f"{graph} does not say which bytes of {location} it needs")
            end = int(numbers[0]) + int(numbers[1])
            if end > size:
                raise BundleError(f"{graph} needs {end} bytes of {location}, it has {size}")


def _sha256(path: str, name: str) -> str:
    import hashlib  # with all of OpenSSL, 4 MB, which who only loads a bundle does not need

    digest = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            for block in iter(lambda: file.read(1 << 20), b""):
                digest.update(block)
    except OSError as error:
        raise BundleError(f"{name} cannot be read: {error.strerror} ({path})") from None
    return digest.hexdigest()
