"""Where the golden run of a bundle starts."""

from __future__ import annotations

from collections.abc import Sequence

from edgeformer.errors import EdgeformerError
from edgeformer.export import parity
from edgeformer.export.tokenizer import Written


def golden_ids(
    prompt: str | Sequence[int] | None,
    default: str | None,
    text: Written | None,
    vocab_size: int,
    capacity: int,
) -> list[int]:
    """`default` is the text where no prompt was asked for; without one, a few fixed ids."""
    if prompt is None and default is not None and text is not None:
        # nobody asked for this text, so that a small cache takes its beginning
        ids = _encoded(default, text)[: capacity // 2]
    elif prompt is None:
        ids = [7 * i % vocab_size for i in range(1, 1 + min(8, capacity // 2))]
    elif not isinstance(prompt, str):
        ids = list(prompt)
    elif text is None:
        raise EdgeformerError(
            "[golden] prompt is text, but the model has no tokenizer.json; give prompt_ids"
        )
    else:
        ids = _encoded(prompt, text)
    most = min(capacity - 1, parity.MOST_PROMPT)
    if not 1 <= len(ids) <= most:
        raise EdgeformerError(
            f"the golden prompt has {len(ids)} tokens; it must have 1 to {most} "
            f"(the capacity is {capacity})"
        )
    if not 0 <= min(ids) <= max(ids) < vocab_size:
        raise EdgeformerError(
            f"the golden prompt has ids from {min(ids)} to {max(ids)}; "
            f"the vocabulary has {vocab_size}"
        )
    return ids


def _encoded(prompt: str, text: Written) -> list[int]:
    begin = text.entry.bos_token_id
    return ([] if begin is None else [begin]) + text.tokenizer.encode(prompt)
