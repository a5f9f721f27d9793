# What a person types in this repository. `make help` lists it.
.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo dist board real-model bench-quick test test-arm64 test-matrix test-rtx test-standin test-images test-slow test-all lint clean host-env

PROMPT ?= It is a truth universally acknowledged, that
QUESTION ?= What is the capital of France?
# PYTHON, PYTHON36 and TORCH_INDEX go to requirements/ensure.sh, which makes the environments.
export PROMPT QUESTION PYTHON PYTHON36 TORCH_INDEX
# Neither tests nor the demo download anything.
export HF_HUB_OFFLINE := 1

RECIPE := export/nano-austen.toml
BUNDLE := bundles/nano-austen
REAL_BUNDLE := bundles/smollm2-135m-instruct
EXPORTED_FROM := $(RECIPE) $(wildcard export/models/nano-austen/*) \
    $(wildcard edgeformer/*.py edgeformer/nn/*.py edgeformer/export/*.py)

# One process for each core; what shares threads with others only waits for them.
workers := -n auto --maxprocesses=4
host_pytest := OMP_NUM_THREADS=1 .venv/bin/python -m pytest -q $(workers) --dist=worksteal
py36_pytest := OMP_NUM_THREADS=1 .venv36/bin/python -m pytest -q $(workers)
# ensure.sh ends with 75 where there is no Python 3.6. It has said so, loudly; the recipe stops.
ensure_py36 := requirements/ensure.sh py36 || { rc=$$?; [ $$rc = 75 ] && exit 0; exit $$rc; }
# Tests of the host half run bundles on Python 3.6; without it they are skipped.
py36_too := requirements/ensure.sh py36 || [ $$? = 75 ]
# pytest ends with 5 where no test is selected.
or_no_slow_test := || { rc=$$?; [ $$rc = 5 ] || exit $$rc; }

help:  ## list the targets
	@sed -n 's/^\([a-z0-9-]*\):.*  ## /  make \1\t/p' Makefile | expand -t 18

demo: $(BUNDLE)/manifest.json  ## export the shipped model, then stream text from it (PROMPT="...")
	@printf '==> python -m edgeformer generate %s "%s"\n' $(BUNDLE) "$$PROMPT" >&2
	@.venv/bin/python -m edgeformer generate $(BUNDLE) "$$PROMPT"

$(BUNDLE)/manifest.json: $(EXPORTED_FROM) | host-env
	@echo '==> python -m edgeformer.export $(RECIPE) -o $(BUNDLE)' >&2
	@.venv/bin/python -m edgeformer.export $(RECIPE) -o $(BUNDLE) --force

real-model: host-env  ## download SmolLM2-135M-Instruct (93 MB), export, chat (QUESTION="..."), compare
	@requirements/ensure-real-model.sh
	@.venv/bin/python -m tests.real.export
	@printf '==> python -m edgeformer generate %s --chat "%s"\n' $(REAL_BUNDLE) "$$QUESTION" >&2
	@.venv/bin/python -m edgeformer generate $(REAL_BUNDLE) --chat "$$QUESTION"
	@echo '==> what transformers says of the same model (half a minute)' >&2
	@.venv/bin/python -m tests.real.reference
	@EDGEFORMER_REAL=1 .venv/bin/python -m pytest -q tests/real
	@$(ensure_py36); \
	echo '==> the same on Python 3.6, .venv36' >&2; \
	EDGEFORMER_REAL=1 .venv36/bin/python -m pytest -q tests/real

dist: host-env  ## build the wheel, one for every Python and processor
	@rm -f dist/edgeformer-*.whl
	@SOURCE_DATE_EPOCH=315532800 .venv/bin/python -m pip --disable-pip-version-check wheel -q \
	    --no-deps --no-build-isolation -w dist .
	@ls -l dist/edgeformer-*.whl >&2

board: dist $(BUNDLE)/manifest.json  ## pack wheel, setup script and the demo bundle for a board
	@requirements/pack-board.sh $(BUNDLE)

host-env:
	@requirements/ensure.sh host

test: host-env  ## run the tests here, then those of the device half on Python 3.6
	@$(py36_too)
	@echo '==> tests, .venv' >&2
	@$(host_pytest) -m "not slow"
	@$(ensure_py36); \
	echo '==> tests of the device half, Python 3.6, .venv36' >&2; \
	$(py36_pytest) -m "not slow"

test-slow: host-env  ## run the tests that `make test` leaves out
	@$(py36_too)
	@echo '==> slow tests, .venv' >&2
	@$(host_pytest) -m slow $(or_no_slow_test)
	@$(ensure_py36); \
	echo '==> slow tests of the device half, Python 3.6, .venv36' >&2; \
	$(py36_pytest) -m slow $(or_no_slow_test)

test-standin: host-env  ## run the tests of TensorRT's Python side, on stand-ins for its libraries
	@requirements/ensure-standin.sh host
	@.venv/bin/python -m tests.standin.run
	@$(ensure_py36); \
	requirements/ensure-standin.sh py36 && \
	.venv36/bin/python -m tests.standin.run

test-rtx: host-env  ## run the tests of TensorRT's parser and builder, on TensorRT for RTX (91 MB)
	@requirements/ensure-rtx.sh || { rc=$$?; [ $$rc = 75 ] && exit 0; exit $$rc; }; \
	echo '==> rtx: TensorRT for RTX builds our graphs, on the CPU' >&2; \
	EDGEFORMER_RTX=1 $(host_pytest) tests/rtx

test-images: host-env  ## do the steps of docker/Dockerfile.* in folders; compiles pycuda three times
	@echo '==> images: the steps of each Dockerfile, without Docker, on this machine' >&2
	@EDGEFORMER_IMAGES=1 $(host_pytest) tests/test_images.py

ON_ARM64 := tests/generation tests/device/doctor tests/text/test_stream.py tests/test_model.py \
    tests/backends/test_ort.py tests/backends/test_ort_fused.py

test-arm64: host-env  ## run bundles and the device half's tests on an emulated Cortex-A57 (100 MB)
	@requirements/ensure-arm64.sh || { rc=$$?; [ $$rc = 75 ] && exit 0; exit $$rc; }; \
	echo '==> arm64: the demo model in five forms, on Debian for arm64 under qemu' >&2; \
	EDGEFORMER_ARM64=1 $(host_pytest) --dist=loadfile tests/arm64 && \
	echo '==> arm64: tests of the device half' >&2 && \
	EDGEFORMER_DEVICE_ONLY=1 OMP_NUM_THREADS=1 .venv-arm64/python -m pytest -q $(workers) \
	    -m "not slow" -p no:cacheprovider $(ON_ARM64)

test-matrix: host-env  ## run tests of the device half on Python 3.6 to 3.13, libraries old and new
	@.venv/bin/python -m tests.matrix

bench-quick: host-env  ## measure the presets up to 15M here: a table, and bundles/ladder.html
	@mkdir -p bundles
	@.venv/bin/python benchmarks/presets.py --quick -o bundles/ladder.html

test-all: test test-slow  ## run every test

lint: host-env  ## check style, scripts, Dockerfiles, and that the device half is Python 3.6
	@echo '==> ruff check, ruff format --check' >&2
	@.venv/bin/python -m ruff check .
	@.venv/bin/python -m ruff format --check .
	@echo '==> shellcheck, hadolint' >&2
	@.venv/bin/shellcheck jetson_setup.sh docker/*.sh
	@.venv/bin/hadolint --config docker/hadolint.yaml docker/Dockerfile.*
	@echo '==> Python 3.6 grammar of the device half' >&2
	@.venv/bin/python -m tests.py36_grammar
	@$(ensure_py36); .venv36/bin/python -m tests.py36_grammar

clean:  ## remove what the targets made; the environments stay (rm -rf .venv .venv36)
	rm -rf $(BUNDLE) $(REAL_BUNDLE) bundles/ladder.html build dist .pytest_cache .ruff_cache
	find . -name .venv\* -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +
