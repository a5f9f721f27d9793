"""`python -m edgeformer bench` as a script: the same options, the same document.

python benchmarks/bench.py BUNDLE... [--json] [-o FILE]
"""

import os
import sys

# This clone's, installed or not
sys.path.insert(1, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from edgeformer.__main__ import main

if __name__ == "__main__":
    sys.exit(main(["bench", *sys.argv[1:]]))
