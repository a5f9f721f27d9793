"""How the commands of this half end: what was wrong in one line, never a traceback."""

from __future__ import annotations

import sys
from collections.abc import Callable

from edgeformer.cli.stdout import ends_well
from edgeformer.errors import EdgeformerError


@ends_well
def exit_status(run: Callable[[], int]) -> int:
    """What `run` gives, or that of its error; Ctrl-C is 130."""
    try:
        return run()
    except EdgeformerError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:  # before the first step, or a second Ctrl-C
        print("interrupted", file=sys.stderr)
        return 130
