"""`import tensorrt` in a process of its own: NVIDIA's bindings, over the stand-ins.

On PYTHONPATH beside the bindings' folder, with the stand-ins on LD_LIBRARY_PATH.
"""

import os
import sys

import tensorrt_bindings

from tests.standin import libraries

sys.modules["tensorrt"] = tensorrt_bindings
if os.environ[libraries.VARIABLE] == libraries.AS_821:
    libraries.hide_all_but(tensorrt_bindings, libraries.names_of("8.2.1"))
