"""Host half: where checkpoints come from. `open_source` tells the kinds apart."""

from __future__ import annotations

from pathlib import Path

from edgeformer.errors import EdgeformerError
from edgeformer.nn.sources.huggingface import (
    CONFIG,
    PICKLES,
    HuggingFaceSource,
    refuse_dead_links,
    refuse_pickle,
)
from edgeformer.nn.sources.source import Source

BUNDLE = "manifest.json"

__all__ = ["Source", "is_hub_id", "open_source"]


def is_hub_id(path_or_id: Path | str) -> bool:
    """Whether `open_source` would look for this on the hub: nothing here has such a path."""
    if Path(path_or_id).exists():
        return False
    # the hub's package is needed for an id only
    from edgeformer.nn.sources.hub import HUB_ID

    return HUB_ID.fullmatch(str(path_or_id)) is not None


def open_source(path_or_id: Path | str) -> Source:
    """A local folder or GGUF file; else, if nothing has that path, a model of the hub by its id.

    No weights are read yet.
    """
    path = Path(path_or_id)
    if path.is_dir():
        return _open_folder(path)
    if path.exists():
        return _open_file(path)
    if is_hub_id(path_or_id):
        from edgeformer.nn.sources.hub import download

        return _open_folder(download(str(path_or_id)))
    raise EdgeformerError(
        f"`{path_or_id}` does not exist; give a checkpoint folder, a GGUF file or a hub id"
    )


def _open_folder(folder: Path) -> Source:
    refuse_dead_links(folder)
    if (folder / CONFIG).exists():
        return HuggingFaceSource(folder)
    if (folder / BUNDLE).exists():
        raise EdgeformerError(
            f"`{folder}` is a bundle, which an export has made already; what is in it: "
            f"python -m edgeformer info {folder}"
        )
    ggufs = sorted(path for path in folder.iterdir() if path.suffix == ".gguf")
    if len(ggufs) == 1:
        return _open_file(ggufs[0])
    if ggufs:
        names = ", ".join(path.name for path in ggufs[:8])
        raise EdgeformerError(f"`{folder}` has {len(ggufs)} GGUF files; give one: {names}")
    raise EdgeformerError(
        f"`{folder}` has no {CONFIG} and no GGUF file; give the folder of a whole checkpoint"
    )


def _open_file(path: Path) -> Source:
    if path.suffix in PICKLES:
        refuse_pickle(path, path.parent)
    if path.suffix == ".safetensors":
        raise EdgeformerError(
            f"`{path}` holds weights and no config; give its folder: {path.parent}"
        )
    from edgeformer.nn.sources.gguf import GgufSource

    return GgufSource(path)
