"""Write the tokenizer and the chat templates into a bundle, and hold them against the reference."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from edgeformer.errors import EdgeformerError
from edgeformer.export.words import Words, within
from edgeformer.manifest_text import Identity, TokenizerEntry
from edgeformer.text import Tokenizer, load_tokenizer
from edgeformer.text.chat import ChatTemplate, ChatTemplates

TOKENIZER_FILE = "tokenizer.json"
TEMPLATE_FILE = "chat_template"
END_OF_TEXT = "<|endoftext|>"  # of the tokenizers that we train
QUESTION, ANSWER = "Are you there?", "I am here"


@dataclass(frozen=True)
class Written:
    """What a bundle holds about text. `notes` are for the person who exports."""

    tokenizer: Tokenizer
    entry: TokenizerEntry
    chat_templates: dict[str, str]  # file by name
    eos_token_ids: tuple[int, ...]
    notes: tuple[str, ...]


def write_words(
    folder: Path, words: Words | None, vocab_size: int, compared: bool = True
) -> Written | None:
    """None without words. `compared`: hold the tokenizer against the reference."""
    if words is None:
        return None
    text, lost = within(words.tokenizer_json, vocab_size)
    path = folder / TOKENIZER_FILE
    path.write_text(text, encoding="utf-8", newline="")
    tokenizer = load_tokenizer(str(path))
    if tokenizer.vocab_size > vocab_size:
        raise EdgeformerError(
            f"the tokenizer has {tokenizer.vocab_size} ids, but the model knows {vocab_size}; "
            "they do not belong together"
        )
    notes = [f"the model does not know {', '.join(lost)}: left out"] if lost else []
    templates = _usable_templates(words, notes)
    ends = dict.fromkeys(i for i in words.eos_token_ids if i < vocab_size)
    if END_OF_TEXT in tokenizer.special_tokens and not ends:
        ends[tokenizer.special_tokens[END_OF_TEXT]] = None
    named = tokenizer.special_tokens.get(words.named_tokens.get("eos_token", ""))
    if named is not None:  # in special_tokens_map.json, which the source does not look at
        ends[named] = None
    for template in templates.values():
        ends.update(dict.fromkeys(_turn_ends(template, tokenizer)))
    entry = TokenizerEntry(
        tokenizer.kind,
        TOKENIZER_FILE,
        tokenizer.special_tokens,
        words.named_tokens,
        _begin(tokenizer, words),
        _identity(tokenizer, text, lost) if compared else None,
    )
    if entry.identity is not None and entry.identity.differences:
        notes.append(f"the tokenizer differs from its reference: {entry.identity.differences[0]}")
    files = _write_templates(folder, templates)
    return Written(tokenizer, entry, files, tuple(ends), tuple(notes))


def _identity(tokenizer: Tokenizer, text: str, lost: list[str]) -> Identity | None:
    if tokenizer.kind == "char":
        return None  # our own kind: there is no other that reads it
    from edgeformer.export.identity import compare

    found = compare(tokenizer, text)
    left_out = tuple(f"{token} is no token here" for token in lost)
    return found._replace(differences=left_out + found.differences)


def _begin(tokenizer: Tokenizer, words: Words) -> int | None:
    """The id that stands before every text."""
    begin = tokenizer.begin_ids
    if len(begin) > 1:
        raise EdgeformerError(
            f"the tokenizer puts {len(begin)} tokens before a text; a bundle can have one"
        )
    if words.add_bos is None:
        return begin[0] if begin else None
    if not words.add_bos:
        return None
    named = tokenizer.special_tokens.get(words.named_tokens.get("bos_token", ""))
    return begin[0] if begin else named


def _usable_templates(words: Words, notes: list[str]) -> dict[str, ChatTemplate]:
    """Those that are understood; the default one must take a question."""
    usable = {}
    for name, source in words.chat_templates.items():
        try:
            template = ChatTemplates({name: source}, dict(words.named_tokens))[name]
            if name == "default":
                template.render([{"role": "user", "content": QUESTION}])
            usable[name] = template
        except EdgeformerError as error:
            notes.append(f"chat template {name!r} is left out: {error}")
    return usable


def _turn_ends(template: ChatTemplate, tokenizer: Tokenizer) -> list[int]:
    """The control token that the template writes behind an answer, if it writes one."""
    turns = [{"role": "user", "content": QUESTION}, {"role": "assistant", "content": ANSWER}]
    try:
        prompt = template.render_prompt(
            turns, tokenizer.special_tokens, add_generation_prompt=False
        )
    except EdgeformerError:
        return []  # a template for tools or documents wants more than a plain chat
    after = prompt.text.rfind(ANSWER)
    behind = [prompt.text[start:stop] for start, stop in prompt.controls if start > after >= 0]
    return [tokenizer.special_tokens[behind[0]]] if behind else []


def _write_templates(folder: Path, templates: dict[str, ChatTemplate]) -> dict[str, str]:
    files = {}
    for index, (name, template) in enumerate(sorted(templates.items())):
        plain = name if re.fullmatch(r"[A-Za-z0-9_-]{1,60}", name) else str(index)
        file = f"{TEMPLATE_FILE}.jinja" if name == "default" else f"{TEMPLATE_FILE}.{plain}.jinja"
        (folder / file).write_text(template.source, encoding="utf-8", newline="")
        files[name] = file
    return files
