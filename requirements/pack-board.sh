#!/usr/bin/env bash
# pack-board.sh BUNDLE: one archive to copy to a board: the wheel of dist/, jetson_setup.sh and the
# bundle, without engines, which a board makes for itself. The same files give the same archive.
set -euo pipefail
cd "$(dirname "$0")/.."

die() { printf 'error: %s\n' "$*" >&2; exit 2; }

[ $# = 1 ] || die "usage: requirements/pack-board.sh BUNDLE"
bundle=${1%/}
[ -f "$bundle/manifest.json" ] || die "$bundle is no bundle; make one with: make demo"
wheels=(dist/edgeformer-*-py3-none-any.whl)
[ ${#wheels[@]} = 1 ] && [ -f "${wheels[0]}" ] || die "dist/ holds no wheel, or several; run: make dist"
.venv/bin/python -m edgeformer info "$bundle" >/dev/null # exit 2 where it is broken

name=$(basename "$(realpath "$bundle")")
top=edgeformer-board-$name
archive=dist/$top.tar.gz
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/$top/bundles"
cp jetson_setup.sh LICENSE "${wheels[0]}" "$work/$top/"
cp -r "$bundle" "$work/$top/bundles/$name"
rm -rf "$work/$top/bundles/$name/engines"
cat >"$work/$top/README.txt" <<END
On the board, in this folder:

    bash jetson_setup.sh
    source ~/edgeformer-venv/bin/activate
    python -m edgeformer doctor bundles/$name
    python -m edgeformer generate bundles/$name "Hello"
END
tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=u+rwX,go+rX,go-w \
    -C "$work" -cf - "$top" | gzip -n >"$archive.part"
mv "$archive.part" "$archive"
printf '%s: %s bytes; to the board with: scp %s USER@BOARD: && ssh USER@BOARD tar -xzf %s.tar.gz\n' \
    "$archive" "$(stat -c %s "$archive")" "$archive" "$top" >&2
