"""Decoder exports as other tools make them: tiny transformers models with past, optimum's names."""

import warnings

import torch
from transformers import DynamicCache, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

LAYERS, HEADS, WIDTH = 2, 2, 8
SIZES = {"vocab_size": 64, "attn_implementation": "eager"}


class WithPast(torch.nn.Module):
    """input_ids, attention_mask, position_ids, past_key_values.* -> logits, present.*"""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask, position_ids, *past):
        cache = DynamicCache()
        for layer in range(LAYERS):
            cache.update(past[2 * layer], past[2 * layer + 1], layer)
        out = self.model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            position_ids=position_ids,
            past_key_values=cache,
            use_cache=True,
        )
        return (out.logits, *(t for x in out.past_key_values.layers for t in (x.keys, x.values)))


def gpt2():
    sizes = {"n_positions": 32, "n_embd": HEADS * WIDTH, "n_layer": LAYERS, "n_head": HEADS}
    return GPT2LMHeadModel(GPT2Config(**SIZES, **sizes, bos_token_id=0, eos_token_id=0))


def llama():
    return LlamaForCausalLM(
        LlamaConfig(
            **SIZES,
            hidden_size=HEADS * WIDTH,
            intermediate_size=32,
            num_hidden_layers=LAYERS,
            num_attention_heads=HEADS,
            num_key_value_heads=1,
            max_position_embeddings=32,
        )
    )


def export(make, path, opset, dynamo=False):
    """Write one model; a fixed batch of 1, sizes free in the tracing exporter only."""
    torch.manual_seed(0)
    kv_heads = HEADS if make is gpt2 else 1
    cached = [torch.zeros(1, kv_heads, 3, WIDTH) for _ in range(2 * LAYERS)]
    ids, mask = torch.ones(1, 2, dtype=torch.long), torch.ones(1, 5, dtype=torch.long)
    names = [f"{i}.{kind}" for i in range(LAYERS) for kind in ("key", "value")]
    inputs = ["input_ids", "attention_mask", "position_ids"]
    inputs += [f"past_key_values.{name}" for name in names]
    axes = {name: {0: "batch", 2: "past"} for name in inputs[3:]}
    axes.update({name: {0: "batch", 1: name} for name in inputs[:3]})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            WithPast(make().eval()),
            (ids, mask, torch.tensor([[3, 4]]), *cached),
            path,
            dynamo=dynamo,
            opset_version=opset,
            input_names=inputs,
            output_names=["logits", *(f"present.{name}" for name in names)],
            **({"external_data": False} if dynamo else {"dynamic_axes": axes}),
        )
