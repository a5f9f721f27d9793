"""A recipe: the TOML file that says what to export. Every key is in export/README.md."""

from __future__ import annotations

import dataclasses
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from edgeformer.errors import EdgeformerError
from edgeformer.export.gate import Gate
from edgeformer.export.reading import TOKENS, Texts
from edgeformer.generation.params import SamplingParams
from edgeformer.manifest import Sampling as Defaults
from edgeformer.nn.quantize.eight import BLOCKS
from edgeformer.nn.record import check_types, read_record

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@dataclass(frozen=True)
class ModelSource:
    """Which model: a checkpoint from anywhere, or a preset with random weights."""

    checkpoint: str | None = None  # our own; a relative path starts at the recipe's folder
    source: str | None = None  # a folder, a GGUF file (both as above), or an id of the hub
    preset: str | None = None
    seed: int | None = None  # of the random weights; 0 if none is given

    def __post_init__(self) -> None:
        check_types(self, "[model]")
        given = [n for n in ("checkpoint", "source", "preset") if getattr(self, n) is not None]
        if len(given) != 1:
            raise EdgeformerError(
                "[model] needs one of the keys checkpoint, source and preset; it has "
                f"{' and '.join(given) or 'none'}"
            )
        if self.preset is None and self.seed is not None:
            raise EdgeformerError(
                f"[model] seed {self.seed} is for the random weights of a preset; "
                "a checkpoint has its own: remove seed"
            )


@dataclass(frozen=True)
class GraphSize:
    """Rows of the cache and tokens of a prefill step; None: as large as is sensible."""

    capacity: int | None = None  # min(1024, max_positions) of a checkpoint, all of a preset
    chunk: int | None = None  # 128, or 256 in fp32 for a CPU; at most the capacity
    exact_steps: bool = False  # several tokens in a step give the bits of one at a time; n8

    def __post_init__(self) -> None:
        check_types(self, "[graph]")


@dataclass(frozen=True)
class Sampling:
    """How a stream samples that asks for nothing else; None: as the checkpoint says, else off."""

    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    typical_p: float | None = None
    repetition_penalty: float | None = None
    no_repeat_ngram_size: int | None = None

    def __post_init__(self) -> None:
        check_types(self, "[sampling]")
        try:
            SamplingParams().changed(self.asked)
        except EdgeformerError as error:
            raise EdgeformerError(f"[sampling] {error}") from None

    @property
    def asked(self) -> dict[str, Any]:
        return {name: it for name, it in dataclasses.asdict(self).items() if it is not None}

    def over(self, checkpoint: dict[str, Any]) -> Defaults:
        """What the bundle gets: these values, then those of the checkpoint, then none."""
        return Defaults(**{**checkpoint, **self.asked})


@dataclass(frozen=True)
class GoldenPrompt:
    """Where the greedy run starts that every device repeats: text or ids; None: a few fixed ids."""

    prompt: str | None = None
    prompt_ids: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        check_types(self, "[golden]")
        if self.prompt is not None and self.prompt_ids is not None:
            raise EdgeformerError("[golden] has both prompt and prompt_ids; keep one of them")


@dataclass(frozen=True)
class QualityGate:
    """What a reduced precision is measured on, and how much it may lose against float32.

    None: the shipped sample, the precision's own threshold. A relative path starts at the
    recipe's folder.
    """

    text: str | None = None  # UTF-8, not trained on
    calibration: str | None = None  # UTF-8; never what is measured
    tokens: int = TOKENS
    max_loss: float | None = None  # of perplexity, as a share of float32's: 0.01 is 1 %
    max_kl: float | None = None  # nats a token
    min_top1: float | None = None  # share of tokens with the same likeliest one

    def __post_init__(self) -> None:
        check_types(self, "[quality]")
        ranges = (("tokens", 64, 2**31 - 1), ("max_loss", 0, 1e9), ("max_kl", 0, 1e9))
        for name, low, high in (*ranges, ("min_top1", 0, 1)):
            value = getattr(self, name)
            if value is not None and not low <= value <= high:
                raise EdgeformerError(
                    f"[quality] {name} is {value}; it must be at least {low} and at most {high:g}"
                )

    @property
    def texts(self) -> Texts:
        paths = (None if path is None else Path(path) for path in (self.text, self.calibration))
        return Texts(*paths, self.tokens)

    def gate(self, allow: bool) -> Gate:
        return Gate(self.max_loss, self.max_kl, self.min_top1, allow)


@dataclass(frozen=True)
class Recipe:
    """One deployable model."""

    name: str
    model: ModelSource
    target: Literal["jetson-nano", "jetson-orin-nano", "cpu"] = "jetson-nano"
    precision: Literal["fp32", "fp16", "int8-qdq", "int8-dynamic", "n8", "n4"] = (
        "fp32"  # of the graphs
    )
    dialect: Literal["portable", "ort"] | None = None  # of the graphs; None: as the target wants
    block: int | None = None  # inputs that share a scale in n8; None: what is nearer to float32
    embedding: Literal["graph", "host"] = "graph"  # where token ids become rows of the table
    tokenizer: bool = True  # False: the bundle takes and gives token ids only
    license: str | None = None
    graph: GraphSize = GraphSize()
    sampling: Sampling = Sampling()
    golden: GoldenPrompt = GoldenPrompt()
    quality: QualityGate = QualityGate()

    def __post_init__(self) -> None:
        check_types(self, "recipe")
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", self.name):
            raise EdgeformerError(
                f"recipe: name is {self.name[:100]!r}; it may hold letters, digits and . _ -"
            )
        if self.block not in (None, *BLOCKS):
            raise EdgeformerError(f"recipe: block is {self.block}; it must be 32 or 64")


def read_recipe(path: Path | str) -> Recipe:
    """Read and check a recipe; its checkpoint becomes a path that holds from anywhere."""
    path = Path(path)
    try:
        with open(path, "rb") as file:
            values = tomllib.load(file)
    except OSError as error:
        raise EdgeformerError(f"cannot read recipe `{path}`: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise EdgeformerError(f"`{path}` is not TOML: {error}") from error
    try:
        recipe = read_record(Recipe, values, "recipe")
    except EdgeformerError as error:
        raise EdgeformerError(f"`{path}`: {error}") from error
    model = recipe.model
    if model.checkpoint is not None:
        model = dataclasses.replace(model, checkpoint=str(path.parent / model.checkpoint))
    elif model.source is not None and (path.parent / model.source).exists():
        model = dataclasses.replace(model, source=str(path.parent / model.source))
    quality = recipe.quality
    for key in ("text", "calibration"):
        if (name := getattr(quality, key)) is not None:
            quality = dataclasses.replace(quality, **{key: str(path.parent / name)})
    return dataclasses.replace(recipe, model=model, quality=quality)


def preset_recipe(name: str) -> Recipe:
    """What `--preset NAME` exports."""
    return Recipe(name, ModelSource(preset=name))


def source_recipe(where: Path | str) -> Recipe:
    """What `--model PATH_OR_HUB_ID` exports; the bundle is named after its last part."""
    path = Path(where)
    last = path.resolve().name if path.exists() else str(where).partition("@")[0].split("/")[-1]
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", last.removesuffix(".gguf")).lstrip("._-")
    return Recipe(name[:100] or "model", ModelSource(source=str(where)))
