"""`python -m edgeformer bench` as a script: the same options, the same document.

python benchmarks/bench.py BUNDLE... [--json] [-o FILE]
"""

import sys

from edgeformer.__main__ import main

if __name__ == "__main__":
    sys.exit(main(["bench", *sys.argv[1:]]))
