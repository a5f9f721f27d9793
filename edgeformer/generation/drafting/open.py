"""From what a caller says about drafts to what makes them. Needs no numpy until a file is read."""

import os
from typing import TYPE_CHECKING, Any, Callable, Dict, Optional

from edgeformer.errors import EdgeformerError
from edgeformer.generation.drafting import Drafter, Either
from edgeformer.generation.drafting.lookup import Lookup

if TYPE_CHECKING:
    from edgeformer.model import Model

OFF, LOOKUP = "off", "lookup"


class Drafts:
    """What the streams of one model draft with. A file or a bundle is opened once."""

    def __init__(self, model: "Model", default: Any = OFF) -> None:
        self._model = model
        self._default = OFF if default is None else default
        self._starts: Dict[str, Callable[[], Drafter]] = {}
        self._opened: "Dict[str, Model]" = {}
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
        self._starts.clear()

    def _find(self, draft: Any) -> Optional[Callable[[], Drafter]]:
        if draft == OFF:
            return None
        if draft == LOOKUP:
            return Lookup
        if isinstance(draft, (str, os.PathLike)):
            path = os.fspath(draft)
            if path not in self._starts:
                self._starts[path] = self._open(path)
            return self._starts[path]
        from edgeformer.model import Model

        if not isinstance(draft, Model):
            raise EdgeformerError(
                f"draft is {type(draft).__name__}; it must be {OFF!r}, {LOOKUP!r}, the path of a "
                "file or bundle, or a loaded model"
            )
        return self._smaller(draft)

    def _open(self, path: str) -> Callable[[], Drafter]:
        if os.path.isdir(path):
            from edgeformer.model import load

            backend = self._model.backend
            # Where the large model runs, with as many threads: they never run at the same time.
            small = load(path, "auto", backend.threads or None)
            try:
                found = self._smaller(small)
            except EdgeformerError:
                small.close()
                raise
            self._opened[path] = small
            return found
        if not os.path.exists(path):
            raise EdgeformerError(
                f"draft {path!r} is neither {OFF!r} nor {LOOKUP!r}, and no file or bundle; make a "
                "file with: python -m edgeformer drafter BUNDLE TEXT -o FILE"
            )
        from edgeformer.generation.drafting import ngram_file
        from edgeformer.generation.drafting.ngrams import NgramDrafter

        ngrams = ngram_file.load(path, self._model.bundle.manifest)
        return lambda: Either([Lookup(), NgramDrafter(ngrams)])

    def _smaller(self, small: "Model") -> Callable[[], Drafter]:
        from edgeformer.generation.drafting.smaller import SmallerModel, check_pair

        check_pair(self._model, small)
        return lambda: Either([Lookup(), SmallerModel(self._model, small)])
