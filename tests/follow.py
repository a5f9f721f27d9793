"""Run bundles along a given text and on their own: `python -m tests.follow JOBS.json`.

For any Python. A job names a bundle, the text and ids of a prompt, the tokens and the logits that
should follow, and texts with their ids; what came of each job goes to stdout as a line of JSON.
"""

import json
import sys

import numpy as np

import edgeformer
from edgeformer.generation.loop import prefill, stream_ids
from edgeformer.generation.params import SamplingParams


def follow(job):
    """The errors of the logits at every step, the bundle's own tokens, and wrong encodings."""
    expected = np.load(job["logits"])  # [steps, vocab]
    with edgeformer.load(job["bundle"], backend="ort", threads=1) as model:
        manifest = model.bundle.manifest
        prompt = model.prompt_ids(job["text"])
        params = SamplingParams(max_new_tokens=len(expected)).checked()
        tokens = stream_ids(model.backend, prompt, params, (), manifest.capacity, manifest.chunk)
        own = [token for token, _ in tokens]
        model.backend.truncate(0)
        found = forced(model.backend, job["prompt"], job["tokens"], manifest.chunk)
        encode = model.tokenizer.encode
        wrong = [text for text, ids in job["texts"] if encode(text, allow_special=True) != ids]
    return {
        "error": worst_error(found, expected),
        "tokens": own,
        "prompt": prompt,
        "wrong_texts": wrong,
    }


def forced(backend, prompt, tokens, chunk):
    """Logits after the prompt and after each of `tokens` but the last, whatever they say."""
    rows = [prefill(backend, prompt, chunk, "logits").logits[0]]
    for position, token in enumerate(tokens[:-1], len(prompt)):
        rows.append(backend.step([token], [position], [0], "logits").logits[0])
    return np.stack(rows)


def worst_error(found, expected):
    """Of all steps, in units of max(1, the step's largest |logit|)."""
    scale = np.maximum(1, np.abs(expected).max(axis=1))
    return float((np.abs(found - expected).max(axis=1) / scale).max())


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        jobs = json.load(file)
    for job in jobs:
        print(json.dumps(follow(job)), flush=True)


if __name__ == "__main__":
    main()
