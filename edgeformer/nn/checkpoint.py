"""Our own checkpoint folder: config.json, model.safetensors and, with text, tokenizer.json."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from edgeformer.errors import EdgeformerError
from edgeformer.nn.config import ModelConfig
from edgeformer.nn.decoder import Decoder

CONFIG_FILE, WEIGHTS_FILE, TOKENIZER_FILE = "config.json", "model.safetensors", "tokenizer.json"
DTYPES = ("F32", "F16", "BF16")


def save_checkpoint(
    folder: Path | str,
    decoder: Decoder,
    tokenizer_json: str | None = None,
    dtype: torch.dtype = torch.float32,
) -> None:
    """Write the folder; each file appears whole or not at all. `dtype` is that of the weights."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    weights = {k: v.detach().to("cpu", dtype).contiguous() for k, v in decoder.state_dict().items()}
    for name, tensor in weights.items():
        if not torch.isfinite(tensor).all():
            raise EdgeformerError(
                f"cannot save `{folder}` as {dtype}: tensor {name} would hold NaN or infinity "
                f"(largest value: {decoder.state_dict()[name].abs().max():.6g})"
            )
    save_tensors(weights, folder / WEIGHTS_FILE)
    _write(folder / CONFIG_FILE, json.dumps(decoder.config.to_json(), indent=1) + "\n")
    if tokenizer_json is not None:
        _write(folder / TOKENIZER_FILE, tokenizer_json)


def save_tensors(
    tensors: dict[str, torch.Tensor], path: Path, notes: dict[str, str] | None = None
) -> None:
    """Write a safetensors file, which appears whole or not at all, for whom the umask allows."""
    staged = path.with_name(path.name + ".partial")
    staged.unlink(missing_ok=True)  # a run that was killed may have left its own
    staged.touch()
    mode = stat.S_IMODE(staged.stat().st_mode)
    save_file(tensors, staged, metadata=notes)
    staged.chmod(mode)  # safetensors makes a file that only its owner may read
    staged.replace(path)


def load_config(folder: Path | str) -> ModelConfig:
    """Read config.json of a checkpoint folder."""
    path = Path(folder) / CONFIG_FILE
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise EdgeformerError(
            f"cannot read `{path}`: {error}; give a checkpoint folder with {CONFIG_FILE} "
            f"and {WEIGHTS_FILE}"
        ) from error
    return ModelConfig.from_json(values)


def load_checkpoint(folder: Path | str) -> Decoder:
    """A decoder in float32 and evaluation mode; every tensor must fit and be finite."""
    config = load_config(folder)
    with torch.device("meta"):  # no random weights, only to be overwritten
        decoder = Decoder(config)
    wanted = {name: tuple(tensor.shape) for name, tensor in decoder.state_dict().items()}
    path = Path(folder) / WEIGHTS_FILE
    try:
        with safe_open(path, framework="pt") as file:
            found = {k: tuple(file.get_slice(k).get_shape()) for k in file.keys()}  # noqa: SIM118
            _compare(path, wanted, found)
            state = {name: _read(path, file, name) for name in wanted}
    except (OSError, SafetensorError) as error:
        raise EdgeformerError(
            f"cannot read `{path}`: {error}; copy the checkpoint again, or train it again"
        ) from error
    decoder.load_state_dict(state, assign=True)
    decoder.add_tables()
    return decoder.eval()


def _read(path: Path, file: safe_open, name: str) -> torch.Tensor:
    stored = file.get_slice(name).get_dtype()
    if stored not in DTYPES:
        raise EdgeformerError(
            f"`{path}`: tensor {name} is {stored}; expected {', '.join(sorted(DTYPES))}"
        )
    tensor = file.get_tensor(name).to(torch.float32, copy=True)  # not a view of the mapped file
    if not torch.isfinite(tensor).all():
        raise EdgeformerError(f"`{path}`: tensor {name} holds NaN or infinity")
    return tensor


def _compare(path: Path, wanted: dict[str, tuple], found: dict[str, tuple]) -> None:
    missing, extra = sorted(set(wanted) - set(found)), sorted(set(found) - set(wanted))
    if missing or extra:
        raise EdgeformerError(
            f"`{path}` does not fit {CONFIG_FILE}: it lacks {len(missing)} tensors "
            f"({', '.join(missing[:3]) or 'none'}) and has {len(extra)} that no layer uses "
            f"({', '.join(extra[:3]) or 'none'})"
        )
    for name, shape in wanted.items():
        if found[name] != shape:
            raise EdgeformerError(
                f"`{path}`: tensor {name} has shape {found[name]}, {CONFIG_FILE} wants {shape}"
            )


def _write(path: Path, text: str) -> None:
    staged = path.with_name(path.name + ".partial")
    staged.write_text(text, encoding="utf-8")
    staged.replace(path)
