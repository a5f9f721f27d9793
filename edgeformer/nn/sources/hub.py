"""A checkpoint of the Hugging Face hub by its id, through `huggingface_hub`, only when asked."""

from __future__ import annotations

import re
from pathlib import Path

import huggingface_hub
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from edgeformer.errors import EdgeformerError

HUB_ID = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*(@[\w./-]+)?")
# Neither pickles nor the same weights in other formats.
WANTED = ["*.json", "*.safetensors", "*.model", "*.txt", "*.jinja", "README.md", "LICENSE*"]
UNWANTED = ["onnx/*", "original/*", "*/*.safetensors", "*/*.json", "adapter_*"]


def download(hub_id: str) -> Path:
    """The folder of the checkpoint, from the local cache where it is whole there.

    `ORG/NAME@REVISION` names a branch, tag or commit.
    """
    name, _, revision = hub_id.partition("@")
    try:
        return Path(
            huggingface_hub.snapshot_download(
                name,
                revision=revision or None,
                allow_patterns=WANTED,
                ignore_patterns=UNWANTED,
            )
        )
    except (OfflineModeIsEnabled, LocalEntryNotFoundError) as error:
        raise EdgeformerError(
            f"`{hub_id}` is no local folder, and the hub cannot be reached: "
            f"{_first_line(error)}; on a machine with a network: hf download {name} "
            "--local-dir FOLDER, then give that folder: --model FOLDER"
        ) from error
    except GatedRepoError as error:
        raise EdgeformerError(
            f"`{name}` asks for its terms to be accepted: do so on its page, then: hf auth login"
        ) from error
    except (RepositoryNotFoundError, RevisionNotFoundError) as error:
        raise EdgeformerError(
            f"`{hub_id}` is no local folder, and the hub has no such model (or it is private: "
            f"hf auth login): {_first_line(error)}"
        ) from error
    except (HfHubHTTPError, OSError) as error:
        raise EdgeformerError(
            f"`{hub_id}` could not be downloaded: {_first_line(error)}; try again, or: "
            f"hf download {name} --local-dir FOLDER, then give that folder: --model FOLDER"
        ) from error


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0][:200]
