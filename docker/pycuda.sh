#!/usr/bin/env bash
# pycuda.sh CUDA PYTHON ARGS...: `PYTHON -m pip ARGS`, with pycuda compiled against the folder CUDA.
#
# Headers and the driver's library are all that pycuda needs: no nvcc, and no GPU. A file in the
# home folder is its own way to be told where they are.
set -euo pipefail

cuda=$1 python=$2
shift 2
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
cat >"$home/.aksetup-defaults.py" <<END
CUDA_ROOT = '$cuda'
CUDA_INC_DIR = ['$cuda/include']
CUDADRV_LIB_DIR = ['$cuda/lib64', '$cuda/lib64/stubs', '/usr/lib/aarch64-linux-gnu/tegra']
CUDA_ENABLE_CURAND = False
CXXFLAGS = ['-O1', '-g0', '-w']
END
HOME=$home "$python" -m pip --disable-pip-version-check --no-cache-dir "$@"
