#!/usr/bin/env bash
# start.sh VERB ...: edgeformer's verbs inside the image for L4T R32.
#
# The first verb that wants the GPU compiles pycuda against the host's CUDA, which is here only now,
# into /cache: once for each CUDA, whole or not at all, by one container while others wait.
set -euo pipefail

prefix=${EDGEFORMER_PREFIX:-/opt/edgeformer} # these three differ in tests only
cache=${EDGEFORMER_CACHE:-/cache}
cuda=${EDGEFORMER_CUDA:-/usr/local/cuda}
[ -e "$cuda/include/cuda.h" ] || cuda=${EDGEFORMER_CUDA:-/usr/local/cuda-10.2} # what the host's list names
python=$prefix/bin/python

say() { printf '==> %s\n' "$*" >&2; }

sources=("$prefix"/sources/pycuda-*)
source=${sources[0]}
version=$(basename "${source%.tar.gz}")
release=$(sed -n 's/^CUDA Version //p' "$cuda/version.txt" 2>/dev/null || true)
built=$cache/$version-cuda${release:-unknown}

compile() {
    local part=$built.part
    (
        flock -n 9 || { say "waiting: another container is compiling pycuda" && flock 9; }
        [ ! -d "$built" ] || exit 0
        say "compiling pycuda for CUDA ${release:-of this host}: once, some minutes"
        rm -rf "$part"
        bash "$prefix/docker/pycuda.sh" "$cuda" "$python" install -q --no-index --no-deps \
            --no-build-isolation --target "$part" "$source" >"$cache/pycuda.log" 2>&1 9>&- ||
            { tail -n 12 "$cache/pycuda.log" >&2 && exit 1; }
        mv "$part" "$built"
    ) 9>>"$cache/.lock"
}

case ${1:-} in
    build | generate | chat | check | prefix | score | bench | doctor)
        # Without headers nobody has put CUDA in: the verb says itself that it runs on the CPU.
        if [ -e "$cuda/include/cuda.h" ]; then
            if compile; then
                export PYTHONPATH=$built${PYTHONPATH:+:$PYTHONPATH}
            elif [ "$1" != doctor ]; then
                printf 'error: pycuda was not compiled, so there are no engines; %s\n' \
                    "docker/run.sh doctor says more, docker/run.sh --cpu does without" >&2
                exit 2
            fi
        fi
        ;;
esac
exec "$python" -m edgeformer "$@"
