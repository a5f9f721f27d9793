"""Words in a request for sampling, as the token ids that sampling takes."""

from typing import TYPE_CHECKING, Any, Dict, List, Optional

from edgeformer.errors import EdgeformerError

if TYPE_CHECKING:
    from edgeformer.text.tokenizer import Tokenizer


def with_ids(asked: Dict[str, Any], tokenizer: "Optional[Tokenizer]") -> Dict[str, Any]:
    """Fields of SamplingParams, where `banned_tokens` and `forced_tokens` may hold text.

    A banned text is out as the tokenizer writes it alone and after a space; the model may still
    spell it with other tokens. A forced one is encoded as a text of its own.
    """
    found = dict(asked)
    if isinstance(asked.get("forced_tokens"), str):
        found["forced_tokens"] = _encoded("forced_tokens", asked["forced_tokens"], tokenizer)
    banned = asked.get("banned_tokens")
    if isinstance(banned, str):
        banned = [banned]
    if isinstance(banned, (list, tuple)) and any(isinstance(entry, str) for entry in banned):
        ids: List[Any] = []
        for entry in banned:
            if isinstance(entry, str):
                for text in (entry, " " + entry):
                    ids.append(_encoded("banned_tokens", text, tokenizer))
            else:
                ids.append(entry)
        found["banned_tokens"] = ids
    return found


def _encoded(field: str, text: str, tokenizer: "Optional[Tokenizer]") -> List[int]:
    if tokenizer is None:
        raise EdgeformerError(
            f"{field} has the text {text[:60]!r}, and this bundle has no tokenizer; give token ids"
        )
    ids = list(tokenizer.encode(text))
    if not text.strip(" ") or not ids:
        raise EdgeformerError(f"{field} has {text[:60]!r}, which has no characters to write")
    return ids
