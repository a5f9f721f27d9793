#!/usr/bin/env bash
# ensure-rtx.sh: put TensorRT for RTX (91 MB, a parser and a builder that need no GPU) into
# .venv-rtx/, beside .venv (which ensure.sh makes), or leave it as it is.
#
# Exit status: 75 says that there is none for this machine (with CI=true that is a failure, 1).
set -euo pipefail
cd "$(dirname "$0")/.."

pins=requirements/rtx.txt
folder=.venv-rtx/$(sed -n 's/^tensorrt-rtx-cu12-libs==//p' "$pins")

not_run() {
    printf '%s\n' "" \
        "################################################################################" \
        "NOT RUN: the tier rtx, TensorRT's own parser and builder. $1" \
        "################################################################################" >&2
    [ "${CI:-}" != true ] || exit 1
    exit 75
}

[ ! -d "$folder" ] || exit 0
case $(uname -sm) in
    "Linux x86_64") ;;
    *) not_run "TensorRT for RTX has wheels for Linux x86_64; this is $(uname -sm)." ;;
esac
printf '==> installing requirements/rtx.txt (91 MB) into %s\n' "$folder" >&2
rm -rf "$folder.part"
nice .venv/bin/python -m pip --disable-pip-version-check -q install --only-binary=:all: --no-deps \
    -r "$pins" --target "$folder.part" || not_run "pip installs no $pins for $(.venv/bin/python -V)."
mv "$folder.part" "$folder"
