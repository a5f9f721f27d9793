#!/usr/bin/env bash
# ensure.sh host|py36: make .venv or .venv36 hold what requirements/ pins, or leave it as it is.
#
# A finished environment carries a stamp with the key of what went into it. A pip that was
# stopped half-way leaves `.installing` and no stamp: the next run starts over.
#
#   PYTHON       the Python for .venv (default: python3, then python3.13 ... python3.10)
#   PYTHON36     the Python for .venv36 (default: python3.6, then pyenv's newest 3.6)
#   TORCH_INDEX  one more package index for pip, for example PyTorch's index of CPU builds
#
# Exit status: 75 says that there is no Python 3.6 (with CI=true that is a failure, 1).
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '==> %s\n' "$*" >&2; }
die() { printf 'error: %s\n' "$*" >&2; exit 2; }

runs() { "$1" -c "import sys; sys.exit(not ($2))" >/dev/null 2>&1; }

find_host() {
    local candidate candidates=(python3 python3.13 python3.12 python3.11 python3.10)
    [ -z "${PYTHON:-}" ] || candidates=("$PYTHON")
    for candidate in "${candidates[@]}"; do
        if runs "$candidate" 'sys.version_info >= (3, 10)'; then echo "$candidate"; return; fi
    done
    die "${PYTHON:-python3} is no Python 3.10 or newer; install one, or say where: PYTHON=/path/to/python3"
}

find_py36() {
    local candidate root
    if [ -n "${PYTHON36:-}" ]; then
        runs "$PYTHON36" 'sys.version_info[:2] == (3, 6)' || die "PYTHON36=$PYTHON36 is no Python 3.6"
        echo "$PYTHON36"
        return
    fi
    root=$(pyenv root 2>/dev/null || echo "${PYENV_ROOT:-${HOME:-}/.pyenv}")
    for candidate in python3.6 $(ls "$root/versions" 2>/dev/null | grep '^3\.6\.' | sort -rV); do
        case $candidate in 3.6.*) candidate=$root/versions/$candidate/bin/python ;; esac
        if runs "$candidate" 'sys.version_info[:2] == (3, 6)'; then echo "$candidate"; return; fi
    done
}

# key FILE... : changes when a pin, a dependency, the Python or the checkout's place changes.
key() {
    local python=$1
    shift
    { pwd; "$python" -VV; cat "$@"; sed '/^\[tool\./,$d' pyproject.toml; } \
        | "$python" -c 'import hashlib, sys; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())'
}

is_ready() { # VENV KEY
    [ "$(cat "$1/.installed" 2>/dev/null)" = "$2" ] && "$1/bin/python" -c '' 2>/dev/null
}

ensure_venv() { # PYTHON VENV
    local want have
    want=$("$1" -c 'import sys; print(sys.version_info[:2])')
    have=$("$2/bin/python" -c 'import sys, pip; print(sys.version_info[:2])' 2>/dev/null || true)
    if [ -e "$2/.installing" ] || [ "$have" != "$want" ]; then
        [ ! -e "$2" ] || say "$2 is half-made or of another Python: starting over"
        say "creating $2 from $("$1" -V)"
        "$1" -m venv --clear "$2" || die "$1 cannot make a venv (on Debian and Ubuntu: apt install python3-venv)"
    fi
    rm -f "$2/.installed"
    : >"$2/.installing"
}

finish() { # VENV KEY
    echo "$2" >"$1/.installing"
    mv "$1/.installing" "$1/.installed"
    say "$1 is ready"
}

pip_in() { # VENV ARGS...
    local venv=$1 quiet=-q
    shift
    [ ! -t 2 ] || quiet=
    "$venv/bin/python" -m pip --disable-pip-version-check install $quiet "$@"
}

ensure_host() {
    local python wanted
    python=$(find_host)
    wanted=$(key "$python" requirements/constraints-host.txt)
    if is_ready .venv "$wanted"; then say "reusing .venv"; return; fi
    ensure_venv "$python" .venv
    say "installing edgeformer[export,dev] into .venv, pinned by requirements/constraints-host.txt (minutes the first time)"
    # torch first and by its exact version, so that a build that lies at hand is taken.
    pip_in .venv ${TORCH_INDEX:+--extra-index-url "$TORCH_INDEX"} -c requirements/constraints-host.txt \
        "$(grep '^torch==' requirements/constraints-host.txt)" flit_core
    pip_in .venv -c requirements/constraints-host.txt --no-build-isolation -e '.[export,dev]'
    finish .venv "$wanted"
}

ensure_py36() {
    local python wanted
    python=$(find_py36)
    if [ -z "$python" ]; then
        printf '%s\n' "" \
            "################################################################################" \
            "NOT RUN: the device tests on Python 3.6, the Jetson Nano's. No Python 3.6 found:" \
            "neither python3.6 on PATH nor a 3.6 of pyenv (pyenv install 3.6.15)." \
            "################################################################################" >&2
        [ "${CI:-}" != true ] || exit 1
        exit 75
    fi
    wanted=$(key "$python" requirements/constraints-py36.txt)
    if is_ready .venv36 "$wanted"; then say "reusing .venv36"; return; fi
    ensure_venv "$python" .venv36
    say "installing requirements/constraints-py36.txt into .venv36"
    # The pip that Python 3.6 brings does not see manylinux2014 wheels; 21.3.1 is the last for 3.6.
    pip_in .venv36 pip==21.3.1
    pip_in .venv36 --only-binary=:all: --no-deps -r requirements/constraints-py36.txt
    finish .venv36 "$wanted"
}

case ${1:-} in
    host) ensure_host ;;
    py36) ensure_py36 ;;
    *) die "usage: requirements/ensure.sh host|py36" ;;
esac
