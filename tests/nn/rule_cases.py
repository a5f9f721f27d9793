"""The table of docs/generation.md: each sampling rule against `transformers`, on the same logits.

The reference is the list of processors and warpers that `transformers` itself makes of a
GenerationConfig, in its own order. It has no frequency and presence penalty: for these it is the
formula of OpenAI's API, written out here. `python -m tests.nn.rule_cases` renders the table.
"""

import os

import numpy as np
import torch
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, LogitsProcessor

from edgeformer import SamplingParams
from edgeformer.generation.processor import Constraint
from edgeformer.generation.sampling import Sampler

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGE = os.path.join(ROOT, "docs", "generation.md")
BEGIN = "<!-- made by python -m tests.nn.rule_cases -->\n"
END = "<!-- end of the table -->"

VOCABULARY, PROMPT, TOLERANCE, CASES = 200, 12, 1e-9, 40
END_IDS = [3, 150]

# Rule -> what is asked of it, by a source of randomness.
RULES = {
    "temperature": lambda r: {"temperature": float(r.uniform(0.1, 3))},
    "top_k": lambda r: {"top_k": int(r.randint(1, 220))},
    "top_p": lambda r: {"top_p": float(r.uniform(0.01, 0.99))},
    "min_p": lambda r: {"min_p": float(r.uniform(0.001, 0.9))},
    "typical_p": lambda r: {"typical_p": float(r.uniform(0.05, 0.99))},
    "repetition_penalty": lambda r: {"repetition_penalty": float(r.uniform(0.5, 2))},
    "frequency_penalty": lambda r: {"frequency_penalty": float(r.uniform(-2, 2))},
    "presence_penalty": lambda r: {"presence_penalty": float(r.uniform(-2, 2))},
    "no_repeat_ngram_size": lambda r: {"no_repeat_ngram_size": int(r.randint(1, 4))},
    "logit_bias": lambda r: {"logit_bias": _biases(r)},
    "banned_tokens, ids": lambda r: {"banned_tokens": r.choice(VOCABULARY, 30, False).tolist()},
    "banned_tokens, sequences": lambda r: {"banned_tokens": r.randint(0, 9, (40, 3)).tolist()},
    "forced_tokens": lambda r: {"forced_tokens": [int(r.randint(VOCABULARY))]},
    "min_new_tokens": lambda r: {"min_new_tokens": int(r.randint(1, 60))},
    "a constraint": lambda r: {"constraint": r.choice(VOCABULARY, 40, False).tolist()},
}
ALL = "any of them together"
GREEDY = "any of them together, greedy"


def _biases(source):
    # transformers keeps biases in float32: these are exact there.
    ids = source.choice(VOCABULARY, 20, False)
    return {int(token): int(source.randint(-160, 160)) / 16 for token in ids}


class Penalties(LogitsProcessor):
    """mu[j] -= c[j] * alpha_frequency + float(c[j] > 0) * alpha_presence, in the answer."""

    def __init__(self, prompt, params):
        self.prompt, self.params = prompt, params

    def __call__(self, input_ids, scores):
        answer = input_ids[0, self.prompt :].tolist()
        scores = scores.numpy().copy()
        for j in range(scores.shape[1]):
            count = answer.count(j)
            scores[0, j] -= count * self.params.frequency_penalty
            scores[0, j] -= float(count > 0) * self.params.presence_penalty
        return torch.from_numpy(scores)


class Allowed(Constraint):
    """Some tokens, always; the answer may end where they hold the first end token."""

    def __init__(self, allowed):
        self.allowed = allowed

    def mask(self, new_ids):
        return np.isin(np.arange(VOCABULARY), self.allowed)

    def may_end(self, new_ids):
        return END_IDS[0] in self.allowed

    def with_ends(self):
        """What `transformers` has to be told: the same with all end tokens or none."""
        others = [token for token in self.allowed if token not in END_IDS]
        return others + (END_IDS if self.may_end([]) else [])


_MODEL = LlamaForCausalLM(
    LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=8,
        intermediate_size=8,
        num_hidden_layers=1,
        num_attention_heads=1,
    )
)


def reference(params, prompt, allowed):
    """The list of transformers, for a text of `prompt` tokens that is to be continued."""
    drawn = {}
    if params.temperature > 0.0:
        drawn = {
            "temperature": params.temperature,
            "top_k": params.top_k,
            "top_p": params.top_p,
            "min_p": params.min_p or None,
            "typical_p": params.typical_p,
        }
    config = GenerationConfig(
        num_beams=1,
        num_return_sequences=1,
        do_sample=bool(drawn),
        repetition_penalty=params.repetition_penalty,
        no_repeat_ngram_size=params.no_repeat_ngram_size,
        sequence_bias=[[[token], bias] for token, bias in params.logit_bias] or None,
        min_new_tokens=params.min_new_tokens,
        bad_words_ids=[[e] if isinstance(e, int) else list(e) for e in params.banned_tokens]
        or None,
        forced_bos_token_id=params.forced_tokens[0] if params.forced_tokens else None,
        **drawn,
    )
    config._eos_token_tensor = torch.tensor(END_IDS)
    own = []
    if params.frequency_penalty or params.presence_penalty:
        own = [Penalties(prompt, params)]
    return _MODEL._get_logits_processor(
        config,
        input_ids_seq_length=prompt,
        prefix_allowed_tokens_fn=None if allowed is None else lambda *_: allowed.with_ends(),
        logits_processor=own,
        device="cpu",
    )


def case(asked, source):
    """(equal, names of the reference's classes) of one text and its logits."""
    asked = dict({"temperature": 1.0}, **asked)
    allowed = Allowed(asked.pop("constraint")) if "constraint" in asked else None
    # transformers forces a token after the first one of a text only.
    forced = "forced_tokens" in asked
    prompt, length = (1, 1) if forced else (PROMPT, PROMPT + int(source.randint(0, 50)))
    if "banned_tokens" in asked:  # transformers lets nobody ban an end token by itself
        asked["banned_tokens"] = [entry for entry in asked["banned_tokens"] if entry not in END_IDS]
    params = SamplingParams().changed(asked)
    ids = source.randint(0, 9 if source.randint(2) else 60, length).tolist()
    logits = (source.standard_normal(VOCABULARY) * 3).astype(np.float32)
    processors = reference(params, prompt, allowed)
    wanted = torch.from_numpy(logits.astype(np.float64))[None]
    wanted = processors(torch.tensor([ids]), wanted)[0]
    found = np.zeros(VOCABULARY)
    sampler = Sampler(params, 0, prompt, END_IDS, allowed)
    kept, shares = sampler.distribution(logits, ids)
    found[kept] = shares
    names = [type(processor).__name__ for processor in processors]
    if params.temperature == 0.0:
        return sampler(logits, ids) == int(wanted.argmax()), names
    wanted = wanted.softmax(-1).numpy()
    same = ((found > 0) == (wanted > 0)).all()
    return bool(same and np.allclose(found, wanted, rtol=TOLERANCE, atol=0)), names


def together(source):
    """What any of the rules ask, each with a chance of one half; a forced token is for itself."""
    asked = {}
    for name, rule in RULES.items():
        if name != "forced_tokens" and source.randint(2):
            asked.update(rule(source))
    return asked


def results():
    """{rule: (cases that were equal, cases, names of the classes)}"""
    found = {}
    rows = dict(RULES)
    rows[ALL] = together
    rows[GREEDY] = lambda source: dict(together(source), temperature=0.0)
    for name, rule in rows.items():
        source = np.random.RandomState(len(found) + 1)
        many = CASES if name in RULES else 4 * CASES
        outcomes = [case(rule(source), source) for _ in range(many)]
        classes = sorted({n for _, names in outcomes for n in names})
        found[name] = sum(equal for equal, _ in outcomes), many, classes
    return found


def rendered(found):
    lines = ["| rule | reference | cases | equal |", "|---|---|---|---|"]
    for name, (equal, many, classes) in found.items():
        if name in (ALL, GREEDY):
            shown = "the list that `transformers` makes, in its order"
        else:
            shown = ", ".join("OpenAI's formula" if c == "Penalties" else f"`{c}`" for c in classes)
        lines.append(f"| {name} | {shown} | {many} | {'all' if equal == many else equal} |")
    return "\n".join(lines) + "\n"


def page(text, found):
    """The page with its table made anew."""
    before, _, rest = text.partition(BEGIN)
    return before + BEGIN + rendered(found) + END + rest.partition(END)[2]


if __name__ == "__main__":
    with open(PAGE, encoding="utf-8") as file:
        old = file.read()
    new = page(old, results())
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write(new)
