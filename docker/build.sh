#!/usr/bin/env bash
# build.sh [r32|r35|r36|pc]: an image of edgeformer, on the board itself or on a PC.
#
# On a PC an image for a board is built with buildx under QEMU: nothing of CUDA runs while it is
# built. Bash 4.4 (Ubuntu 18.04).
set -euo pipefail
export LC_ALL=C

usage() {
    cat <<'END'
usage: docker/build.sh [OPTIONS] [r32|r35|r36|pc]      (default: the image for this machine)

  --dry-run        print the docker command and do nothing
  --registry HOST  where NVIDIA's base images are (default: nvcr.io/nvidia)
  --base IMAGE     for r35 and r36: another base than l4t-tensorrt, such as l4t-jetpack:r36.4.0
  --arm64          for pc: an image for arm64, on a PC of another kind

The wheel in dist/ goes in; `make dist` builds it.
END
}

ROOT=${EDGEFORMER_ROOT:-} # another machine's files, for tests
HERE=$(CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
KIND="" DRY=no REGISTRY="" BASE="" ARM64=no

say() { printf '%s\n' "$*" >&2; }
die() {
    printf 'error: %s\n' "$*" >&2
    exit 2
}

parse() {
    while [ $# -gt 0 ]; do
        case $1 in
            --dry-run) DRY=yes ;;
            --arm64) ARM64=yes ;;
            --registry | --base)
                [ $# -gt 1 ] && [ -n "$2" ] || die "$1 needs a value; see --help"
                if [ "$1" = --registry ]; then REGISTRY=$2; else BASE=$2; fi
                shift
                ;;
            -h | --help) usage && exit 0 ;;
            r32 | r35 | r36 | pc)
                [ -z "$KIND" ] || die "one image at a time: $KIND or $1"
                KIND=$1
                ;;
            *) die "there is no image and no option $1; see --help" ;;
        esac
        shift
    done
    [ -n "$KIND" ] || KIND=$(kind_here)
    case $KIND in
        pc) [ -z "$REGISTRY$BASE" ] || die "--registry and --base are for r35 and r36; the image pc is Debian's Python" ;;
        *) [ $ARM64 = no ] || die "--arm64 is for pc: an image for a board is always one" ;;
    esac
    case $KIND.$BASE in r32.?*) die "r32 has one base: TensorRT and CUDA are the host's" ;; esac
}

kind_here() {
    local release
    case $(tr '\0' ' ' 2>/dev/null <"$ROOT/proc/device-tree/compatible") in
        *nvidia,tegra*) ;;
        *) echo pc && return ;;
    esac
    release=$(sed -n 's/^# *\(R[0-9]*\) (release).*/\1/p' "$ROOT/etc/nv_tegra_release" 2>/dev/null | head -n 1)
    case $release in
        R32 | R35 | R36) echo "r${release#R}" ;;
        *) die "there is no image for L4T ${release:-of an unknown release}; say which: r32, r35, r36 or pc" ;;
    esac
}

the_wheel() {
    local wheels=("$HERE"/dist/edgeformer-*-py3-none-any.whl)
    [ ${#wheels[@]} = 1 ] || die "dist/ holds ${#wheels[@]} wheels; make one with: make dist"
    [ -f "${wheels[0]}" ] || die "dist/ holds no wheel; make it with: make dist"
}

emulated() { # an image for arm64 on a machine that is none
    [ "$(uname -m)" != aarch64 ] && { [ "$KIND" != pc ] || [ $ARM64 = yes ]; }
}

emulation() {
    docker buildx version >/dev/null 2>&1 ||
        die "an image for arm64 takes buildx here: sudo apt-get install docker-buildx (Docker's own: docker-buildx-plugin)"
    [ -e "$ROOT/proc/sys/fs/binfmt_misc/qemu-aarch64" ] ||
        die "nothing here runs programs of arm64: sudo apt-get install qemu-user-static binfmt-support"
}

main() {
    local command
    parse "$@"
    command=(docker build)
    if emulated; then command=(docker buildx build --platform linux/arm64 --load); fi
    command+=(--file "$HERE/docker/Dockerfile.$KIND" --tag "edgeformer:$KIND")
    [ -z "$REGISTRY" ] || command+=(--build-arg "REGISTRY=$REGISTRY")
    [ -z "$BASE" ] || command+=(--build-arg "BASE=$BASE")
    command+=("$HERE")
    if [ $DRY = yes ]; then
        printf '%q ' "${command[@]}"
        printf '\n'
        exit 0
    fi
    the_wheel
    command -v docker >/dev/null || die "there is no docker: sudo apt-get install docker.io"
    if emulated; then emulation; fi
    "${command[@]}"
    if emulated; then
        say "edgeformer:$KIND is here; to a board: docker save edgeformer:$KIND | gzip | ssh USER@BOARD docker load"
    fi
}

main "$@"
