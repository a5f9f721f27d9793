"""The ids of a prompt: a text with what stands before it, or ids that a caller gives."""

import operator
from typing import TYPE_CHECKING, List, Optional, Sequence, Union

from edgeformer.errors import EdgeformerError

if TYPE_CHECKING:
    from edgeformer.manifest import Manifest
    from edgeformer.text.tokenizer import Tokenizer


def prompt_ids(
    manifest: "Manifest", tokenizer: "Optional[Tokenizer]", prompt: Union[str, Sequence[int]]
) -> List[int]:
    """See `Model.prompt_ids`."""
    if not isinstance(prompt, str):
        return checked_ids(prompt, manifest.model["vocab_size"])
    if tokenizer is None:
        raise EdgeformerError(
            "this bundle has no tokenizer; give the prompt as token ids (generate --ids)"
        )
    ids = list(tokenizer.encode(prompt))
    begin = manifest.tokenizer.bos_token_id
    if begin is not None:
        return [begin, *ids]
    if not ids and manifest.eos_token_ids:
        return [manifest.eos_token_ids[0]]
    if not ids:
        raise EdgeformerError(
            "the prompt is empty, and the tokenizer has no begin or end token to start from; "
            "give at least one character"
        )
    return ids


def checked_ids(prompt: Sequence[int], vocabulary: int) -> List[int]:
    """Plain integers, each of them in the vocabulary."""
    ids: List[int] = []
    if isinstance(prompt, (bytes, bytearray)):
        raise EdgeformerError("the prompt is bytes; decode it to text first")
    try:
        for value in prompt:
            ids.append(operator.index(value))
    except TypeError:
        raise EdgeformerError(
            f"the prompt is {type(prompt).__name__} and its item {len(ids)} is no token id; "
            "give text or a list of integers"
        ) from None
    for index, value in enumerate(ids):
        if not 0 <= value < vocabulary:
            raise EdgeformerError(
                f"prompt id {value} at index {index} is not in the vocabulary, "
                f"0 to {vocabulary - 1}"
            )
    return ids
