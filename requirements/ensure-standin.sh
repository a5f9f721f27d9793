#!/usr/bin/env bash
# ensure-standin.sh host|py36: put the TensorRT bindings and pycuda that the `standin` tests drive
# into .venv-standin/, beside .venv or .venv36 (which ensure.sh makes), or leave them as they are.
#
# pycuda is built from source, once, in minutes. No CUDA is needed: the headers come from a wheel,
# and the tests' stand-in is the driver while linking. A folder that is there is complete.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '==> %s\n' "$*" >&2; }
die() { printf 'error: %s\n' "$*" >&2; exit 2; }

case ${1:-} in
    host) python=$PWD/.venv/bin/python ;;
    py36) python=$PWD/.venv36/bin/python ;;
    *) die "usage: requirements/ensure-standin.sh host|py36" ;;
esac
pins=$PWD/requirements/standin-$1.txt
home=$PWD/.venv-standin/$1

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

pip() { nice "$python" -m pip --disable-pip-version-check -q "$@"; }

# The pins of one section, the lines between "# [NAME]" and the next, as a file for pip.
section() {
    sed -n "/^# \[$1\]/,/^# \[/{/^[^#]/p}" "$pins" >"$work/$1.txt"
    echo "$work/$1.txt"
}

# install FOLDER COMMAND... : run the command with a new folder, which takes its name at the end.
install() {
    local folder=$home/$1
    shift
    [ ! -d "$folder" ] || return 0
    say "installing $(basename "$folder") into .venv-standin for $("$python" -V 2>&1)"
    rm -rf "$folder.part"
    "$@" "$folder.part"
    mv "$folder.part" "$folder"
}

packages() { # SECTION FOLDER
    pip install --only-binary=:all: --no-deps -r "$(section "$1")" --target "$2"
}

built_pycuda() { # FOLDER
    local cuda=$work/cuda/nvidia/cuda_runtime
    pip download --only-binary=:all: --no-deps -r "$(section headers)" -d "$work"
    "$python" -m zipfile -e "$work"/nvidia_cuda_runtime*.whl "$work/cuda"
    # The one header that pycuda includes and the wheel leaves out.
    printf '%s\n' '#include <cuda.h>' '#ifdef __cplusplus' 'extern "C" {' '#endif' \
        'CUresult cuProfilerStart(void);' 'CUresult cuProfilerStop(void);' \
        'typedef enum { CU_OUT_KEY_VALUE_PAIR, CU_OUT_CSV } CUoutput_mode;' \
        'CUresult cuProfilerInitialize(const char *, const char *, CUoutput_mode);' \
        '#ifdef __cplusplus' '}' '#endif' >"$cuda/include/cudaProfiler.h"
    gcc -shared -fPIC -Wl,-soname,libcuda.so.1 -o "$work/libcuda.so" tests/standin/libcuda.c
    # pycuda's own way to be configured under pip: a file in the home folder.
    printf '%s\n' "CUDA_ROOT = '$cuda'" "CUDA_INC_DIR = ['$cuda/include']" \
        "CUDADRV_LIB_DIR = ['$work']" "CUDA_ENABLE_CURAND = False" \
        "CXXFLAGS = ['-O1', '-g0', '-w']" >"$work/.aksetup-defaults.py"
    say "building pycuda (some 3 minutes)"
    HOME=$work pip wheel --no-deps --no-binary=pycuda -r "$(section pycuda)" -w "$work/wheel"
    pip install --no-deps --target "$1" "$work"/wheel/pycuda*.whl
    packages pycuda-needs "$1"
}

mkdir -p "$home"
for release in $(sed -n 's/^# \[tensorrt-\(.*\)\].*/\1/p' "$pins"); do
    install "tensorrt-$release" packages "tensorrt-$release"
done
install pycuda built_pycuda
