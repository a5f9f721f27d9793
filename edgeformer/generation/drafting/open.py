"""From what a caller says about drafts to what makes them. Needs no numpy until a file is read."""

from typing import TYPE_CHECKING, Any, Dict, Optional

from edgeformer.errors import EdgeformerError
from edgeformer.generation.drafting import Drafter
from edgeformer.generation.drafting.lookup import Lookup

if TYPE_CHECKING:
    from edgeformer.model import Model

OFF, LOOKUP = "off", "lookup"


class Drafts:
    """What the streams of one model draft with. A file or a bundle is opened once."""

    def __init__(self, model: "Model", default: Any = OFF) -> None:
        self._model = model
        self._default = OFF if default is None else default
        self._opened: Dict[str, Any] = {}
        self._find(self._default)  # what is wrong with it is told when the model is loaded

    def start(self, draft: Any = None) -> Optional[Drafter]:
        """A drafter for one stream. None: it takes one token at a time."""
        found = self._find(self._default if draft is None else draft)
        return None if found is None else found()

    def close(self) -> None:
        """Free what was opened here."""
        for opened in self._opened.values():
            opened.close()
        self._opened.clear()

    def _find(self, draft: Any) -> Any:
        if draft == OFF:
            return None
        if draft == LOOKUP:
            return Lookup
        raise EdgeformerError(f'draft is {draft!r}; it must be "off" or "lookup"')
