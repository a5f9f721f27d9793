"""Both engines, where this Python has both."""

import sys

ENGINES = ["own"] if sys.version_info < (3, 10) else ["own", "llguidance"]
