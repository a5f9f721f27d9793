"""The chat templates of a bundle, and the prompt ids that they make of messages."""

from typing import TYPE_CHECKING, Any, Dict, List, Optional

from edgeformer.errors import BundleError, EdgeformerError

if TYPE_CHECKING:
    from edgeformer.bundle import Bundle
    from edgeformer.text.chat import ChatTemplates
    from edgeformer.text.tokenizer import Tokenizer

# The last ones for Python 3.6; newer Pythons take newer ones too.
INSTALL = "python -m pip install --no-deps jinja2==3.0.3 markupsafe==2.0.1"
MOST_BYTES = 1 << 20


def open_templates(bundle: "Bundle") -> "ChatTemplates":
    """Read and parse them all. Needs jinja2, which nothing else here does."""
    manifest = bundle.manifest
    if not manifest.chat_templates or manifest.tokenizer is None:
        raise EdgeformerError(
            "bundle %s has no chat template; give the prompt as text, or export it again from a "
            "checkpoint that has one" % manifest.name
        )
    try:
        from edgeformer.text.chat import ChatTemplates
    except ImportError as error:
        missing = (error.name or "jinja2").split(".")[0]
        if missing == "edgeformer":
            raise
        raise EdgeformerError(
            "a chat needs the package %s, which cannot be imported (%s); install it with: %s"
            % (missing, error, INSTALL)
        ) from error
    sources = {name: _read(bundle, file) for name, file in manifest.chat_templates.items()}
    return ChatTemplates(sources, dict(manifest.tokenizer.named_tokens))


def chat_ids(
    tokenizer: "Tokenizer",
    templates: "ChatTemplates",
    messages: List[Dict[str, Any]],
    name: Optional[str] = None,
    tools: Optional[List[dict]] = None,
    **extra: Any,
) -> List[int]:
    """What the template says becomes control ids; what a message says never does.

    The template alone decides about a begin token, as in `transformers`: what the tokenizer puts
    before a text is not put before a chat.
    """
    template = templates.choose(name, tools)
    segments = template.render_segments(messages, tokenizer.special_tokens, tools=tools, **extra)
    return tokenizer.encode_segments(segments)


def _read(bundle: "Bundle", file: str) -> str:
    with open(bundle.file(file), "rb") as opened:
        raw = opened.read(MOST_BYTES + 1)
    try:
        if len(raw) > MOST_BYTES:
            raise BundleError("%s has more than %d bytes" % (file, MOST_BYTES))
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BundleError("%s is not UTF-8: %s; export the bundle again" % (file, error)) from None
