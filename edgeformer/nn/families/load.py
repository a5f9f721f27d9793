"""A checkpoint of any family as a `Decoder`: shapes are checked first, then tensors are read."""

from __future__ import annotations

import dataclasses
import re
from typing import NamedTuple

import torch

from edgeformer.errors import EdgeformerError
from edgeformer.nn.config import ModelConfig
from edgeformer.nn.decoder import Decoder
from edgeformer.nn.families import config_of, find_family
from edgeformer.nn.families.family import DERIVED, Family
from edgeformer.nn.families.recipe import Piece, Recipe, rows
from edgeformer.nn.sources.source import Source

POSITIONS = "position_embedding.weight"


class Plan(NamedTuple):
    """How a checkpoint becomes a decoder; made and checked without reading a weight."""

    config: ModelConfig
    recipes: dict[str, Recipe]  # of every parameter
    shapes: dict[str, tuple[int, ...]]
    twin: str | None  # a tied head that is stored as well: it must equal the embedding


def load_decoder(source: Source, max_positions: int | None = None) -> Decoder:
    """A float32 decoder in evaluation mode; its weights are in memory once, and one block more.

    `max_positions` may be lower than the checkpoint's, which also makes its tables smaller.
    """
    plan = plan_decoder(source, max_positions)
    with torch.device("meta"):
        decoder = Decoder(plan.config)
    state = {}
    for name, shape in plan.shapes.items():
        state[name] = torch.empty(shape)
        _fill(source, state[name], plan.recipes[name])
        if name == "embedding.weight" and plan.twin is not None:
            _compare_twin(source, state[name], plan.twin)
    decoder.load_state_dict(state, assign=True)
    decoder.add_tables()
    return decoder.eval()


def plan_decoder(source: Source, max_positions: int | None = None) -> Plan:
    """Map every tensor of the checkpoint; what is missing, left over or misshapen is an error."""
    family = source.own_family or find_family(source.family)
    config = config_of(family, source.config, source.config_name)
    recipes = _with_prefix(family, source, family.tensors(config, source.config))
    twin = _settle_tied_head(family, source, config, recipes)
    if max_positions is not None:
        config = _cut(source, config, recipes, max_positions)
    with torch.device("meta"):
        shapes = {n: tuple(t.shape) for n, t in Decoder(config).state_dict().items()}
    unsaid = [name for name in shapes if name not in recipes]
    if unsaid:
        raise EdgeformerError(
            f"`{source.where}`: nothing says which tensors make {', '.join(unsaid[:3])}"
        )
    recipes = {name: recipes[name] for name in shapes}
    _check_names(family, source, recipes, twin)
    for name, shape in shapes.items():
        _check_shape(source, config, name, shape, recipes[name])
    return Plan(config, recipes, shapes, twin)


def _with_prefix(family: Family, source: Source, recipes: dict[str, Recipe]) -> dict[str, Recipe]:
    """Names as this checkpoint spells them: saved from the model with a head, or from its body."""
    spellings = (family.prefix, family.prefix.removeprefix("model."), "")
    prefix = next((p for p in spellings if any(n.startswith(p) for n in source.names())), "")
    head = family.head.removesuffix("weight")  # "lm_head.": its bias stands beside its weight

    def spelled(name: str) -> str:
        return name if name.startswith(head) else prefix + name

    return {
        ours: tuple(Piece(tuple(map(spelled, piece.names)), piece.make) for piece in recipe)
        for ours, recipe in recipes.items()
    }


def _settle_tied_head(
    family: Family, source: Source, config: ModelConfig, recipes: dict[str, Recipe]
) -> str | None:
    """A tied table may be stored under either name, or under both."""
    names = set(source.names())
    if not config.tie_embeddings or family.head not in names:
        return None
    (piece,) = recipes["embedding.weight"]
    if piece.names[0] in names:
        return family.head
    recipes["embedding.weight"] = rows(family.head)
    return None


def _cut(
    source: Source, config: ModelConfig, recipes: dict[str, Recipe], max_positions: int
) -> ModelConfig:
    if max_positions > config.max_positions and config.position != "alibi":
        raise EdgeformerError(
            f"`{source.where}` has {config.max_positions} positions, {max_positions} were asked "
            f"for; ask for at most {config.max_positions}"
        )
    if config.position == "learned":
        kept = max_positions + config.position_offset
        (piece,) = recipes[POSITIONS]
        recipes[POSITIONS] = (Piece(piece.names, lambda w: w[:kept]),)
    return dataclasses.replace(config, max_positions=max_positions)


def _check_names(
    family: Family, source: Source, recipes: dict[str, Recipe], twin: str | None
) -> None:
    names = set(source.names())
    used = {name for recipe in recipes.values() for piece in recipe for name in piece.names}
    used.update({twin} - {None})
    missing = sorted(used - names)
    if missing:
        raise EdgeformerError(
            f"`{source.where}` lacks {len(missing)} tensors that {source.config_name} asks for: "
            f"{', '.join(missing[:3])}; download or save the checkpoint again"
        )
    derived = re.compile("|".join((*DERIVED, *family.irrelevant)))
    extra = sorted(name for name in names - used if not derived.fullmatch(name))
    if extra:
        raise EdgeformerError(
            f"`{source.where}` has {len(extra)} tensors that no layer of a {family.name} model "
            f"with this {source.config_name} uses: {', '.join(extra[:3])}; none is dropped "
            "silently, so check that the weights and the config belong together"
        )


def _check_shape(
    source: Source, config: ModelConfig, name: str, shape: tuple[int, ...], recipe: Recipe
) -> None:
    """Each piece by itself too: rows that are too many here could be missing there."""
    made = []
    for piece in recipe:
        tensors = [torch.empty(source.shape(n), device="meta") for n in piece.names]
        try:
            made.append(tensors[0] if piece.make is None else piece.make(*tensors))
        except (RuntimeError, IndexError):
            made.append(torch.empty(0, device="meta"))  # they do not even fit into each other
    counts = [m.shape[0] if m.dim() else 0 for m in made]
    wanted = _rows_of_pieces(config, name)
    wrong = counts != wanted if len(counts) == len(wanted) else sum(counts) != shape[0]
    if wrong or any(tuple(m.shape[1:]) != shape[1:] for m in made):
        stored = ", ".join(f"{n} {list(source.shape(n))}" for piece in recipe for n in piece.names)
        raise EdgeformerError(
            f"`{source.where}`: {stored} cannot be {name} of shape {list(shape)}, which "
            f"{source.config_name} asks for"
        )


def _rows_of_pieces(config: ModelConfig, name: str) -> list[int]:
    """Of the two products that are several tensors in most checkpoints."""
    if ".attention.qkv." in name:
        return [config.n_heads * config.head_dim, config.kv_width, config.kv_width]
    return [config.d_ff, config.d_ff] if ".ff.up." in name else []


def _fill(source: Source, out: torch.Tensor, recipe: Recipe) -> None:
    row = 0
    for piece in recipe:
        if piece.make is None:
            count = source.shape(piece.names[0])[0]
            _load(source, piece.names[0], out[row : row + count])
        else:
            part = piece.make(*(_load(source, name) for name in piece.names))
            count = part.shape[0]
            out[row : row + count].copy_(part)
        row += count


def _load(source: Source, name: str, out: torch.Tensor | None = None) -> torch.Tensor:
    tensor = source.load(name, out)
    low, high = tensor.aminmax()  # NaN in either if there is one, and no mask in memory
    if not (torch.isfinite(low) and torch.isfinite(high)):
        raise EdgeformerError(
            f"`{source.where}`: tensor {name} holds NaN or infinity; the checkpoint is damaged, "
            "or was saved in a precision that cannot hold it"
        )
    return tensor


def _compare_twin(source: Source, embedding: torch.Tensor, head: str) -> None:
    if source.shape(head) != tuple(embedding.shape) or not torch.equal(
        source.load(head), embedding
    ):
        raise EdgeformerError(
            f"`{source.where}`: tie_word_embeddings is true, but {head} is not the embedding; "
            f"set it to false in {source.config_name} to use both"
        )
