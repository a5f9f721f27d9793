"""`python -m tests.real.export`: export the real checkpoint and hold its peak memory to a limit."""

import os
import subprocess
import sys

from tests.real.files import BUNDLE, CACHE, NAME, ROOT

RECIPE = "export/smollm2-135m-instruct.toml"
MOST_BYTES = 1.3e9  # with fp32 weights of 538 MB


def main() -> int:
    gguf, bundle = (os.path.relpath(path, ROOT) for path in (os.path.join(CACHE, NAME), BUNDLE))
    command = ["-m", "edgeformer.export", RECIPE, "--model", gguf, "-o", bundle, "--force"]
    print("==> python " + " ".join(command), file=sys.stderr, flush=True)
    export = subprocess.Popen([sys.executable, *command], cwd=ROOT)
    _, status, used = os.wait4(export.pid, 0)
    if status:
        return 1
    peak = used.ru_maxrss * 1024
    print(f"peak memory of the export: {peak / 1e9:.2f} GB", file=sys.stderr)
    if peak > MOST_BYTES:
        print(f"FAILED: it is above {MOST_BYTES / 1e9} GB", file=sys.stderr)
    return int(peak > MOST_BYTES)


if __name__ == "__main__":
    sys.exit(main())
