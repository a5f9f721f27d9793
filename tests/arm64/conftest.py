"""Collects the tier `arm64` only where its runner, `make test-arm64`, asks for it."""

import os

VARIABLE = "EDGEFORMER_ARM64"

collect_ignore_glob = [] if os.environ.get(VARIABLE) else ["test_*.py"]
