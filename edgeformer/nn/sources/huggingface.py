"""A local folder as Hugging Face lays it out: config.json and one or several safetensors files.

Our own checkpoints lie the same way, with a config.json of our keys.
"""

from __future__ import annotations

import os
import re
import reprlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from edgeformer.errors import EdgeformerError
from edgeformer.generation.params import SamplingParams
from edgeformer.nn.families import ours
from edgeformer.nn.sources.files import read_json, read_text
from edgeformer.nn.sources.safetensors import SafetensorsFile
from edgeformer.nn.sources.source import Source, Stored, digest_of

CONFIG, ONE_FILE, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
MOST_CONFIG, MOST_INDEX, MOST_TEMPLATE = 4 << 20, 16 << 20, 1 << 20  # bytes
MOST_FILES = 1024
PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "vocab.txt",
    "tokenizer.model",
    "spiece.model",
)
TEMPLATE, GENERATION = "chat_template.jinja", "generation_config.json"
DRAWN = ("temperature", "top_k", "top_p", "min_p", "typical_p")
ALWAYS = ("repetition_penalty", "no_repeat_ngram_size")
READ = (CONFIG, ONE_FILE, INDEX, TEMPLATE, GENERATION, *TOKENIZER_FILES)
CONVERT = (
    'python -c "from transformers import AutoModelForCausalLM as M; '
    "M.from_pretrained('{folder}').save_pretrained('{folder}-safetensors')\""
)


def refuse_pickle(found: Path, folder: Path) -> None:
    raise EdgeformerError(
        f"`{found}` is a pickle, and loading one runs whatever program is in it; if you trust it, "
        f"convert it to safetensors: {CONVERT.format(folder=folder)}"
    )


def refuse_dead_links(folder: Path) -> None:
    """Hub caches are made of links; one that lost its file must not pass for a file nobody made."""
    for path in map(folder.joinpath, READ):
        if path.is_symlink() and not path.exists():
            raise EdgeformerError(
                f"`{path}` is a link to `{os.readlink(path)}`, which is not there; download the "
                f"checkpoint again, or copy it with `cp -rL`, which copies what links lead to"
            )


class HuggingFaceSource(Source):
    """See `Source`; `kind` is "huggingface", or "edgeformer" for a folder that we wrote."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.where = folder, str(folder)
        self.config = read_json(folder / CONFIG, MOST_CONFIG)
        own = "model_type" not in self.config and {"d_model", "n_layers"} <= set(self.config)
        if own:
            self.config = {"model_type": ours.NAME, **self.config}
        self.kind = "edgeformer" if own else "huggingface"
        self.family = self.config.get("model_type")
        self.files = {name: SafetensorsFile(folder / name) for name in self._weight_files()}
        self.places: dict[str, SafetensorsFile] = {}
        for file in self.files.values():
            for name in file.spans:
                if name in self.places:
                    raise EdgeformerError(
                        f"tensor {reprlib.repr(name)} is in `{self.places[name].path}` and in "
                        f"`{file.path}`"
                    )
                self.places[name] = file
        self._check_index()
        self.metadata: dict[str, Any] = {}
        self.tokenizer_files = {n: folder / n for n in TOKENIZER_FILES if (folder / n).is_file()}
        self._tokenizer_config = self._optional("tokenizer_config.json")
        self.chat_templates = self._chat_templates()
        self.eos_token_ids = self._eos_token_ids()
        self.sampling = self._sampling()
        self.license = self._license()

    def names(self) -> Iterable[str]:
        return self.places.keys()

    def stored(self, name: str) -> Stored:
        return self.places[name].spans[name][0]

    def load(self, name: str, out: torch.Tensor | None = None) -> torch.Tensor:
        return self.places[name].load(name, out)

    def digest(self) -> str:
        return digest_of([file.path for file in self.files.values()])

    def _weight_files(self) -> list[str]:
        self._index: dict[str, Any] = {}
        if (self.folder / ONE_FILE).exists():
            return [ONE_FILE]
        if not (self.folder / INDEX).exists():
            self._refuse_without_weights()
        self._index = read_json(self.folder / INDEX, MOST_INDEX).get("weight_map")
        if not isinstance(self._index, dict) or not self._index:
            raise EdgeformerError(f"`{self.folder / INDEX}` has no weight_map")
        names = sorted({name for name in self._index.values() if isinstance(name, str)})
        for name in self._index.values():
            # the names come from a file: only what lies in this folder itself may be opened
            if not isinstance(name, str) or not re.fullmatch(r"[\w.-]+\.safetensors", name):
                raise EdgeformerError(
                    f"`{self.folder / INDEX}` names {reprlib.repr(name)}; expected the plain name "
                    "of a .safetensors file in the same folder"
                )
        if len(names) > MOST_FILES:
            raise EdgeformerError(f"`{self.folder / INDEX}` names {len(names)} files")
        return names

    def _refuse_without_weights(self) -> None:
        for path in sorted(self.folder.iterdir()):
            if path.suffix in PICKLES and "training" not in path.name:
                refuse_pickle(path, self.folder)
        raise EdgeformerError(
            f"`{self.folder}` has neither {ONE_FILE} nor {INDEX}; give the folder of a whole "
            "checkpoint"
        )

    def _check_index(self) -> None:
        for name, file in self._index.items():
            if name not in self.files[file].spans:
                raise EdgeformerError(
                    f"`{self.folder / INDEX}` says that tensor {reprlib.repr(name)} is in "
                    f"{file}, but it is not; download the checkpoint again"
                )

    def _optional(self, name: str) -> dict[str, Any]:
        path = self.folder / name
        return read_json(path) if path.exists() else {}

    def _chat_templates(self) -> dict[str, str]:
        """From tokenizer_config.json, or newer: files of their own."""
        templates: dict[str, str] = {}
        found = self._tokenizer_config.get("chat_template")
        if isinstance(found, str):
            templates["default"] = found
        elif isinstance(found, list):
            for entry in found:
                text = isinstance(entry, dict) and entry.get("template")
                if not isinstance(text, str) or not isinstance(entry.get("name"), str):
                    raise EdgeformerError(f"`{self.folder}`: a chat_template has no name or text")
                templates[entry["name"]] = text
        path = self.folder / TEMPLATE
        if path.exists():
            templates["default"] = read_text(path, MOST_TEMPLATE)
        for path in sorted((self.folder / "additional_chat_templates").glob("*.jinja")):
            templates[path.stem] = read_text(path, MOST_TEMPLATE)
        return templates

    def _eos_token_ids(self) -> list[int]:
        """Every token that any of the files calls an end, in the order in which they are found."""
        ids: list[int] = []
        for values in (self.config, self._optional(GENERATION)):
            found = values.get("eos_token_id")
            ids += found if isinstance(found, list) else [found]
        ids.append(self._id_of(self._tokenizer_config.get("eos_token")))
        vocab_size = self.config.get("vocab_size")
        limit = vocab_size if type(vocab_size) is int else 1 << 31
        return list(dict.fromkeys(i for i in ids if type(i) is int and 0 <= i < limit))

    def _sampling(self) -> dict[str, Any]:
        """Of generation_config.json, by its own names. Without do_sample it is greedy, and what
        is about drawing says nothing, as in `transformers`."""
        found = self._optional(GENERATION)
        drawn = found.get("do_sample") or False
        names = (*DRAWN, *ALWAYS) if drawn else ALWAYS
        values = {name: found[name] for name in names if found.get(name) is not None}
        if drawn:
            values.setdefault("temperature", 1.0)
        try:
            if not isinstance(drawn, bool):
                raise EdgeformerError(f"do_sample is {drawn!r}; it must be true or false")
            SamplingParams().changed(values)
        except EdgeformerError as error:
            raise EdgeformerError(
                f"`{self.folder / GENERATION}`: {error}; correct the file, or remove the key"
            ) from None
        return values

    def _id_of(self, token: Any) -> int | None:
        text = token.get("content") if isinstance(token, dict) else token
        if not isinstance(text, str):
            return None
        added = self._tokenizer_config.get("added_tokens_decoder")
        for number, entry in added.items() if isinstance(added, dict) else ():
            if isinstance(entry, dict) and entry.get("content") == text and number.isdigit():
                return int(number)
        tokenizer = self._optional("tokenizer.json")
        listed = tokenizer.get("added_tokens")
        for entry in listed if isinstance(listed, list) else ():
            if isinstance(entry, dict) and entry.get("content") == text:
                return entry.get("id")
        model = tokenizer.get("model")
        vocab = model.get("vocab") if isinstance(model, dict) else None
        return vocab.get(text) if isinstance(vocab, dict) else None

    def _license(self) -> str | None:
        """As the front matter of the model card has it."""
        path = self.folder / "README.md"
        if not path.is_file():
            return None
        with path.open(encoding="utf-8", errors="replace") as file:
            front = re.match(r"---\n(.*?)\n---\n", file.read(1 << 16), re.DOTALL)
        found = re.search(r"^license: *([\w.+-]+) *$", front[1] if front else "", re.MULTILINE)
        return found[1] if found else None
