#!/usr/bin/env bash
# ensure-arm64.sh: put an arm64 Python with the libraries of requirements/arm64.txt and qemu's
# user emulation into .venv-arm64/, or leave it as it is. Needs no root; what apt and dpkg know of
# this machine is not touched: they are given folders of their own. 100 MB come over the network.
#
# Exit status: 75 says that this machine cannot have it (with CI=true that is a failure, 1).
set -euo pipefail
cd "$(dirname "$0")/.."

home=.venv-arm64
pins=requirements/arm64.txt
python=.venv/bin/python

say() { printf '==> %s\n' "$*" >&2; }

not_run() {
    printf '%s\n' "" \
        "################################################################################" \
        "NOT RUN: the tier arm64, the Nano's instruction set. $1" \
        "################################################################################" >&2
    [ "${CI:-}" != true ] || exit 1
    exit 75
}

key() { cat "$pins" "$0" | sha256sum; }

private_apt() { # FOLDER ARCHITECTURE ARGUMENT...: apt-get, with lists, cache and status of its own
    local folder=$1 architecture=$2
    shift 2
    mkdir -p "$folder/state/lists/partial" "$folder/cache/archives/partial"
    : >>"$folder/status"
    apt-get -qq -y -o APT::Architecture="$architecture" -o APT::Architectures::="$architecture" \
        -o Dir::State="$folder/state" -o Dir::State::status="$folder/status" \
        -o Dir::Cache="$folder/cache" -o APT::Sandbox::User= -o Acquire::Languages=none \
        -o APT::Install-Recommends=false "$@"
}

[ "$(cat "$home/.installed" 2>/dev/null)" != "$(key)" ] || exit 0
for tool in apt-get dpkg-deb sha256sum; do
    command -v "$tool" >/dev/null || not_run "It is made of Debian's packages, and there is no $tool."
done

part=$PWD/$home.part
rm -rf "$part" "$home"
mkdir -p "$part"
trap 'rm -rf "$part"' EXIT

say "fetching qemu-user-static and an arm64 Python into $home (100 MB, once)"
here=$(dpkg --print-architecture)
private_apt "$part/apt-here" "$here" update || not_run "apt-get cannot read its lists."
(cd "$part" && private_apt "$part/apt-here" "$here" download qemu-user-static) ||
    not_run "apt-get has no qemu-user-static for $here."
dpkg-deb --fsys-tarfile "$part"/qemu-user-static_*.deb | tar -x -C "$part" ./usr/bin/qemu-aarch64-static
mv "$part/usr/bin/qemu-aarch64-static" "$part/qemu-aarch64"

private_apt "$part/apt-arm64" arm64 update || not_run "apt-get has no arm64 packages here."
private_apt "$part/apt-arm64" arm64 --download-only install python3 libgomp1 'libstdc++6' ||
    not_run "apt-get has no arm64 Python here."
for deb in "$part"/apt-arm64/cache/archives/*.deb; do
    dpkg-deb -x "$deb" "$part/system" # what it holds; none of its scripts is run
done
[ -e "$part/system/lib" ] || ln -s usr/lib "$part/system/lib" # Debian's scripts would have

printf '%s\n' '#!/bin/sh' \
    'here=$(dirname "$(readlink -f "$0")")' \
    'PYTHONPATH=$here/packages${PYTHONPATH:+:$PYTHONPATH}' \
    'QEMU_CPU=cortex-a57 QEMU_LD_PREFIX=$here/system ARM64_PYTHON=$here/python' \
    'export PYTHONPATH QEMU_CPU QEMU_LD_PREFIX ARM64_PYTHON' \
    'exec "$here/qemu-aarch64" "$here/system/usr/bin/python3" "$@"' >"$part/python"
chmod +x "$part/python"

version=$("$part/python" -c 'import sys; print("%d%d" % sys.version_info[:2])') ||
    not_run "The arm64 Python does not start under qemu."
"$python" -m pip --disable-pip-version-check -q install --target "$part/packages" --no-deps \
    --only-binary=:all: --platform manylinux2014_aarch64 --platform manylinux_2_27_aarch64 \
    --platform manylinux_2_28_aarch64 --platform manylinux_2_31_aarch64 --python-version "$version" -r "$pins" ||
    not_run "pip has no $pins for Python $version on arm64."
# Programs that start Python again ask for it by this name.
printf 'import os, sys\n\nsys.executable = os.environ["ARM64_PYTHON"]\n' \
    >"$part/packages/sitecustomize.py"
rm -rf "$part"/apt-* "$part"/*.deb "$part/usr"
mv "$part" "$home"
key >"$home/.installed"
