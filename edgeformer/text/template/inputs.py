"""What a render is given, copied into the kinds of value that templates may meet."""

import re
from collections.abc import Mapping
from typing import Any, Dict, List, Optional

from edgeformer.text.template.limits import Budget, Refused, whole_number
from edgeformer.text.template.traced import trusted

# What one message calls its thinking is there under the names that other templates read.
_THINKING = ("reasoning_content", "thinking", "reasoning")
_ROLE = re.compile(r"[A-Za-z0-9_]{1,64}\Z")


def chat_messages(budget: Budget, messages: Any) -> List[Dict[str, Any]]:
    """Messages as templates expect them: without keys that are None, thinking under each name."""
    if not isinstance(messages, (list, tuple)) or not messages:
        raise Refused("messages are a list of at least one message")
    result = []
    for message in dicts(budget, messages, "messages") or []:
        message = {key: value for key, value in message.items() if value is not None}
        thinking = [message[name] for name in _THINKING if name in message]
        if thinking:
            first = {"thinking": thinking[0]}
            message = dict(first, **message)
            message["reasoning_content"] = thinking[0]
        # Templates write roles into control tokens: "<|" + role + "|>". A name can hold no marker.
        role = message.get("role")
        if isinstance(role, str) and _ROLE.match(role):
            message["role"] = trusted(role)
        result.append(message)
    return result


def dicts(budget: Budget, value: Any, where: str) -> Optional[List[Dict[str, Any]]]:
    if value is None:
        return None
    if not isinstance(value, (list, tuple)) or not all(isinstance(one, Mapping) for one in value):
        raise Refused("%s are a list of dicts" % where)
    return [plain(budget, one, where) for one in value]


def plain(budget: Budget, value: Any, where: str, depth: int = 0) -> Any:
    """A copy of JSON-like data, made of nothing but the exact types."""
    budget.step()
    if depth > 50:
        raise Refused("%s are nested more than 50 deep" % where)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        budget.text(len(value))
        return str.__str__(value)
    if isinstance(value, int):
        return whole_number(int(value))
    if isinstance(value, float):
        return float(value)
    if isinstance(value, Mapping):
        return {
            plain(budget, key, where, depth + 1): plain(budget, item, where, depth + 1)
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        items = [plain(budget, item, where, depth + 1) for item in value]
        return items if isinstance(value, list) else tuple(items)
    raise Refused("%s hold a %s; they may hold what JSON can" % (where, type(value).__name__))
