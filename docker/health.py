"""Is a container of ours fit to answer? Exit 0, or 1 with a line of what is wrong.

For HEALTHCHECK: numpy computes and ONNX Runtime runs a graph, in children of their own, so that one
that dies or hangs is an answer as well. No model is loaded and no GPU is touched.
"""

import os
import sys

from edgeformer.device.doctor import probes


def main() -> int:
    environment = probes.environment_of(os.environ)
    for name in ("numpy", "onnxruntime"):
        probe = probes.run([sys.executable], name, environment)
        if not probe.well or not probe.found.get("right"):
            why = probe.died or probe.found.get("text") or probe.words or "computes wrongly"
            print(f"{name} {probe.version}: {why}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
