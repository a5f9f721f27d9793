"""The scripts of benchmarks/ import each other by name, as when one of them is started."""

import os
import sys

FOLDER = os.path.join(
    os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "benchmarks"
)
if FOLDER not in sys.path:
    sys.path.insert(0, FOLDER)
