"""Host half: a recipe or a decoder becomes a bundle. `python -m edgeformer.export --help`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edgeformer.export.build import Exported, export_decoder

__all__ = ["Exported", "export_decoder"]


def __getattr__(name: str) -> Any:
    """Import torch only when it is needed: `--help` must answer at once."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from edgeformer.export import build

    return getattr(build, name)
