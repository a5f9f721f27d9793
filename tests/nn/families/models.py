"""Tiny random models of `transformers` in the shapes of `shapes.py`, and how far ours are off."""

import functools

import torch
import transformers

from tests.nn.families.shapes import SHAPES

LENGTH = 40  # tokens that are compared: more than every window and original length


@functools.cache
def reference(name: str, seed: int = 0) -> torch.nn.Module:
    return random_model(name, SHAPES[name](), seed)


def random_model(
    name: str,
    config: transformers.PretrainedConfig,
    seed: int,
    deviation: float = 0.7,
    embedding: float = 1.0,
) -> torch.nn.Module:
    """The model, its every number random: norms near 1, biases too, so that none can be lost.

    `deviation` is that of weights, times the root of their width; `embedding` that of the table.
    """
    torch.manual_seed(seed)
    # transformers 5.24 adds Falcon's ALiBi twice in its eager attention
    attention = "sdpa" if name.startswith("falcon") else "eager"
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation=attention)
    model.eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0.0, deviation * parameter.shape[-1] ** -0.5)
            else:
                parameter.add_(torch.randn_like(parameter) * 0.2)
        model.get_input_embeddings().weight.normal_(0.0, embedding)
    return model.float()


def token_ids(model: torch.nn.Module, length: int = LENGTH) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randint(3, model.config.vocab_size, (1, length), generator=generator)


@torch.no_grad()
def logit_error(model: torch.nn.Module, decoder: torch.nn.Module, length: int = LENGTH) -> float:
    """The largest difference of a logit at any position, relative to max(1, |logit|)."""
    ids = token_ids(model, length)
    theirs, ours = model(ids).logits.float(), decoder(ids)
    assert theirs.std(1).mean() > 0.1, "the reference says the same at every position"
    return ((ours - theirs).abs() / theirs.abs().clamp(min=1)).max().item()
