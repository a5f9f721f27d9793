"""`import tensorrt` in a process of its own: NVIDIA's bindings, over the stand-ins.

On PYTHONPATH beside the bindings' folder, with the stand-ins on LD_LIBRARY_PATH.
"""

import importlib
import os
import sys

from tests.standin import libraries

bindings = importlib.import_module("tensorrt_bindings")
sys.modules["tensorrt"] = bindings
if os.environ[libraries.VARIABLE] == libraries.AS_821:
    libraries.hide_all_but(bindings, libraries.names_of("8.2.1"))
if os.environ.get(libraries.COMPUTE):
    from tests.standin import computing

    computing.start(os.environ[libraries.COMPUTE].split(os.pathsep))
