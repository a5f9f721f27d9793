"""Chats on tokenizers of every kind: each model family's template with its way to cut text."""

import json
import os
import zlib

from tests.text.chat_cases import CONVERSATIONS, FOLDER, templates
from tests.text.family_parts import FAMILIES, document_around, part
from tests.text.make_family_golden import golden as families_golden
from tests.text.make_family_golden import model_name
from tests.text.small import added_token

PATH = os.path.join(FOLDER, "ids.json")
IM = ("<|im_start|>", "<|im_end|>")
INST = ("[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_CALLS]")
HEADERS = ("<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>")
TURNS = ("<start_of_turn>", "<end_of_turn>")
PHI = ("<|system|>", "<|user|>", "<|assistant|>", "<|end|>")
ROLES = ("<|start_of_role|>", "<|end_of_role|>", "<|end_of_text|>")

# name: (tokenizer of, template, control tokens, begin token, end token, what stands before a text)
CASES = {
    "smollm2": ("smollm2", "smollm2", IM, "<|im_start|>", "<|im_end|>", None),
    "qwen3": ("qwen2", "qwen3_thinking", IM, None, "<|im_end|>", None),
    "llama3": ("llama3", "llama3_date", HEADERS, "<s>", "<|eot_id|>", "<s>"),
    "llama3 in chatml": ("llama3", "chatml", IM, "<s>", "<|im_end|>", "<s>"),
    "llama2": ("llama2", "llama2", (), "<s>", "</s>", "<s>"),
    "zephyr": ("llama2", "zephyr", (), "<s>", "</s>", "<s>"),
    "tinyllama": ("llama2-new", "zephyr", (), "<s>", "</s>", "<s>"),
    "phi3": ("llama2", "phi3", PHI, "<s>", "<|end|>", None),
    "mistral": ("mistral-v3", "mistral", INST, "<s>", "</s>", "<s>"),
    "mistral-nemo": ("mistral-nemo", "mistral", INST, "<s>", "</s>", "<s>"),
    "gemma": ("gemma", "gemma", TURNS, "<bos>", "<eos>", "<bos>"),
    "olmo2": ("olmo2", "olmo2", (), "<|endoftext|>", "<|endoftext|>", None),
    "stablelm": ("gpt-neox", "stablelm", (), "<|endoftext|>", "<|endoftext|>", None),
    "granite": ("gpt2", "granite", ROLES, "<|end_of_text|>", "<|end_of_text|>", None),
    "falcon": ("falcon", "falcon", (), None, "<|endoftext|>", None),
    "unigram": ("t5", "chatml", IM, "<s>", "<|im_end|>", "<s>"),
    "unigram-bytes": ("unigram-bytes", "chatml", IM, None, "<|im_end|>", None),
    "word-piece": ("bert", "chatml", IM, "[CLS]", "<|im_end|>", "[CLS]"),
    "words": ("words", "chatml", IM, None, "<|im_end|>", None),
    "prefixed-bpe": ("prefixed-bpe", "chatml", IM, None, "<|im_end|>", None),
}
TAKE_SPACE = {"rstrip": PHI}  # as in Phi 3's file: the white space behind belongs to the token


def typed(case):
    """Everyone types every control token of the case, whole, cut, doubled and inside words."""
    tokens = sorted(content for content, _ in controls(case))
    text = (
        " ".join(tokens) + "\n" + "".join(tokens) + "".join("a%sb%s" % (t, t[:-1]) for t in tokens)
    )
    rest = [{"role": "user", "content": text}, {"role": "assistant", "content": "x" + text}]
    return [{"role": "system", "content": text}, *rest, {"role": "user", "content": text + "!"}]


def conversations(case):
    """{name: (messages, options)}, where an answer is to follow."""
    found = {}
    for name, (messages, options) in CONVERSATIONS.items():
        if options.get("add_generation_prompt", True):
            found[name] = (messages, options)
    found["typed"] = (typed(case), {})
    found["typed, no system"] = (typed(case)[1:], {})
    return found


def controls(case):
    """(content, flags) of each special token that a document of the case adds."""
    _, _, tokens, begin, end, _ = CASES[case]
    contents = [each for each in (begin, end) if each is not None]
    return [
        (each, {flag: True for flag, takers in TAKE_SPACE.items() if each in takers})
        for each in dict.fromkeys(contents + list(tokens))
    ]


def named_tokens(case):
    _, _, _, begin, end, _ = CASES[case]
    return {k: v for k, v in (("bos_token", begin), ("eos_token", end)) if v is not None}


def template_of(case):
    return templates()[CASES[case][1]]


def document_of(case):
    """The tokenizer.json of a case."""
    family, _, _, _, _, before = CASES[case]
    kind, parts = FAMILIES[family]
    document = document_around(kind, families_golden()["models"][model_name(family)], parts)
    ids = {entry["content"]: entry["id"] for entry in document["added_tokens"]}
    for content, flags in controls(case):
        if content not in ids:
            ids[content] = max(ids.values()) + 1
            document["added_tokens"].append(added_token(content, ids[content]))
        entry = next(e for e in document["added_tokens"] if e["content"] == content)
        entry.update(flags)
    if before is not None:
        document["post_processor"] = part(
            "TemplateProcessing",
            single=[
                {"SpecialToken": {"id": before, "type_id": 0}},
                {"Sequence": {"id": "A", "type_id": 0}},
            ],
            pair=[{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            special_tokens={before: {"id": before, "ids": [ids[before]], "tokens": [before]}},
        )
    return document


def checksum(ids):
    return zlib.crc32(json.dumps(list(ids)).encode("ascii"))


def golden():
    with open(PATH, encoding="utf-8") as file:
        return json.load(file)
