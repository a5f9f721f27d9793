"""What `transformers` says of SmolLM2-135M-Instruct, written into .cache for both Pythons.

`python -m tests.real.reference`, on the host, once. Nothing of ours computes here: the `gguf`
package gives the numbers, and the rows of queries and keys go back from llama.cpp's order, in
which the halves of a rotated head are interleaved, into that of `transformers`.
"""

import json
import os

import numpy as np
import torch
from gguf import GGUFReader, dequantize
from tokenizers import pre_tokenizers
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from tests.real.files import CACHE, NAME, REFERENCE, ROOT
from tests.text.hard_strings import HARD_STRINGS

PROMPTS = (64, 512)  # tokens
NEW = 128
START = 3000  # the token of the text where both begin; from others the model repeats itself
WINDOWS, WINDOW = 16, 256  # tokens whose perplexity is taken, each window with an empty cache
TEXT = os.path.join(ROOT, "export", "models", "nano-austen", "held_out.txt")
CHAT = [
    {"role": "system", "content": "Answer with one word."},
    {"role": "user", "content": "What is the capital of France?"},
    {"role": "assistant", "content": "Paris"},
    {"role": "user", "content": "And of Italy? "},
]
# As the file's metadata gives it.
CONFIG = LlamaConfig(
    vocab_size=49152,
    hidden_size=576,
    intermediate_size=1536,
    num_hidden_layers=30,
    num_attention_heads=9,
    num_key_value_heads=3,
    max_position_embeddings=8192,
    rms_norm_eps=1e-5,
    rope_theta=100000.0,
    tie_word_embeddings=True,
    bos_token_id=1,
    eos_token_id=2,
)
NAMES = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def main():
    model, tokenizer = read_model(), read_tokenizer()
    with open(TEXT, encoding="utf-8") as file:
        whole = tokenizer(file.read()[:20000])["input_ids"]
    ids = whole[START:]
    found = {
        "perplexity": perplexity(model, whole[: WINDOWS * WINDOW]),
        "prompts": [ids[:length] for length in PROMPTS],
        "greedy": [greedy(model, ids[:length]) for length in PROMPTS],
        "texts": [[text, tokenizer(text)["input_ids"]] for text in HARD_STRINGS],
        "messages": CHAT,
        "chat": tokenizer.apply_chat_template(CHAT, add_generation_prompt=True)["input_ids"],
    }
    with open(REFERENCE + ".part", "w", encoding="utf-8") as file:
        json.dump(found, file)
    os.replace(REFERENCE + ".part", REFERENCE)


def read_tokenizer() -> PreTrainedTokenizerFast:
    """`transformers` does not read how a GGUF's vocabulary cuts texts (tokenizer.ggml.pre, here
    "smollm"): it is set to what the checkpoint's own tokenizer.json has, each digit apart."""
    tokenizer = AutoTokenizer.from_pretrained(CACHE, gguf_file=NAME)
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    return tokenizer


def read_model() -> LlamaForCausalLM:
    state = {}
    for tensor in GGUFReader(os.path.join(CACHE, NAME)).tensors:
        w = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)  # [out, in]
        if tensor.name == "token_embd.weight":
            name = "model.embed_tokens.weight"
        elif tensor.name == "output_norm.weight":
            name = "model.norm.weight"
        else:
            _, layer, part, _ = tensor.name.split(".")
            name = f"model.layers.{layer}.{NAMES[part]}.weight"
            if part in ("attn_q", "attn_k"):
                heads = 9 if part == "attn_q" else 3
                w = w.reshape(heads, -1, 2, w.shape[1]).swapaxes(1, 2).reshape(w.shape)
        state[name] = torch.from_numpy(np.ascontiguousarray(w))
    model = LlamaForCausalLM(CONFIG)
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert (missing, unexpected) == (["lm_head.weight"], []), (missing, unexpected)
    model.tie_weights()
    return model.eval()


def perplexity(model: LlamaForCausalLM, ids: list[int]) -> float:
    """Of what follows the first token of each window."""
    windows = torch.tensor(ids).reshape(WINDOWS, WINDOW)
    with torch.inference_mode():
        losses = [model(w[None], labels=w[None]).loss.double() for w in windows]
    return float(torch.stack(losses).mean().exp())


def greedy(model: LlamaForCausalLM, prompt: list[int]) -> list[int]:
    """Its tokens go on after an end of text: the eos token is not looked at."""
    output = model.generate(
        torch.tensor([prompt]),
        attention_mask=torch.ones(1, len(prompt), dtype=torch.int64),
        max_new_tokens=NEW,
        do_sample=False,
        eos_token_id=None,
        pad_token_id=0,
    )
    return output[0, len(prompt) :].tolist()


if __name__ == "__main__":
    main()
