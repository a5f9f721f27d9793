"""From what a caller says about drafts to what makes them."""

from typing import TYPE_CHECKING, Any, Callable, Optional

from edgeformer.errors import EdgeformerError
from edgeformer.generation.drafting import Drafter
from edgeformer.generation.drafting.lookup import Lookup

if TYPE_CHECKING:
    from edgeformer.model import Model

Start = Callable[[], Drafter]  # a drafter for one stream


def open_draft(draft: Any, model: "Model") -> Optional[Start]:
    """`draft`: None or "off": none; "lookup"."""
    if draft is None or draft == "off":
        return None
    if draft == "lookup":
        return Lookup
    raise EdgeformerError(f'draft is {draft!r}; it must be "off" or "lookup"')
