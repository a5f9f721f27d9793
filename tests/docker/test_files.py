"""The files of docker/: clean for hadolint and shellcheck, fit for old Dockers, and pinned."""

import glob
import os
import re
import shutil
import subprocess

import pytest

from edgeformer.device.doctor.pins import KITS
from tests.docker import dockerfile, machines
from tests.docker.dockerfile import KINDS
from tests.py36_grammar import ROOT

SCRIPTS = sorted(glob.glob(os.path.join(machines.FOLDER, "*.sh")))
# What the NVIDIA runtime puts into an R32 container, by the names of their packages.
INJECTED = r"cuda|cudnn|nvinfer|tensorrt|libnv|cublas|vpi|visionworks|l4t"


def checker(name):
    program = shutil.which(name, path=os.path.join(ROOT, ".venv/bin")) or shutil.which(name)
    if program is None:
        assert os.environ.get("CI") != "true", name + " is not installed"
        pytest.skip("NOT RUN: no %s; make host-env" % name)
    return program


def finds_nothing(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout.decode("utf-8")
    assert not done.stdout


@pytest.mark.parametrize("kind", KINDS)
def test_hadolint_finds_nothing(kind):
    path = os.path.join(machines.FOLDER, "Dockerfile." + kind)
    config = os.path.join(machines.FOLDER, "hadolint.yaml")
    finds_nothing(checker("hadolint"), "--config", config, path)


def test_shellcheck_finds_nothing():
    assert len(SCRIPTS) == 4
    finds_nothing(checker("shellcheck"), *SCRIPTS)


@pytest.mark.parametrize("path", SCRIPTS, ids=os.path.basename)
def test_scripts_are_for_bash_4_4_and_send_nothing_to_a_shell(path):
    with open(path, encoding="ascii") as file:
        text = file.read()
    newer = r"EPOCHSECONDS|EPOCHREALTIME|BASH_ARGV0|SRANDOM|wait -p|@[UuLKk]\}|-v \w+\["
    assert not re.findall(newer, text)
    assert not re.findall(r"curl|wget|\| *(?:ba)?sh\b|\beval\b|--trusted-host|http://", text)
    assert os.access(path, os.X_OK)


def pins(name):
    with open(os.path.join(machines.FOLDER, name + ".txt"), encoding="ascii") as file:
        return re.findall(r"^([\w.-]+)==(\S+)$", file.read(), re.MULTILINE)


@pytest.mark.parametrize("kit", KITS, ids=[kit.name for kit in KITS])
def test_an_image_has_the_versions_of_the_board(kit):
    # edgeformer reads tokenizer.json itself
    packages = [pin for pin in kit.packages.items() if pin[0] != "tokenizers"]
    assert pins(kit.name) == packages
    assert pins(kit.name + "-build") == [("pip", kit.pip), *kit.build.items()]
    assert pins(kit.name + "-pycuda") == list(kit.pycuda.items())


def test_the_pcs_image_has_the_versions_that_the_tests_run_on():
    with open(os.path.join(ROOT, "requirements/constraints-host.txt"), encoding="ascii") as file:
        tested = dict(re.findall(r"^([\w.-]+)==([^\s;]+)", file.read(), re.MULTILINE))
    found = dict(pins("pc"))
    assert found.items() <= tested.items()
    assert {"numpy", "onnxruntime", "Jinja2", "llguidance"} <= set(found)


def test_bases_are_images_that_exist_by_the_facts_and_of_one_release():
    assert dockerfile.bases("r32") == ["nvcr.io/nvidia/l4t-base:r32.7.1"]
    assert dockerfile.bases("r35") == [
        "nvcr.io/nvidia/l4t-jetpack:r35.4.1",
        "nvcr.io/nvidia/l4t-tensorrt:r8.5.2-runtime",
    ]
    assert dockerfile.bases("r36") == [
        "nvcr.io/nvidia/l4t-jetpack:r36.4.0",
        "nvcr.io/nvidia/l4t-tensorrt:r10.3.0-runtime",
    ]
    (base,) = set(dockerfile.bases("pc"))
    assert re.match(r"python:3\.13\.\d+-slim-\w+\Z", base)


def test_the_nanos_image_is_built_without_buildkit():
    with open(os.path.join(machines.FOLDER, "Dockerfile.r32"), encoding="ascii") as file:
        text = file.read()
    assert not re.findall(r"<<|--mount|--chmod|--link|--security|^# *syntax", text, re.MULTILINE)


def test_the_nanos_image_asks_for_all_lists_and_installs_nothing_that_the_host_puts_in():
    assert dockerfile.environment("r32")["NVIDIA_REQUIRE_JETPACK"] == "csv-mounts=all"
    assert dockerfile.environment("r32")["OPENBLAS_CORETYPE"] == "ARMV8"
    (apt,) = [text for text in dockerfile.of("r32", "RUN") if "apt-get" in text]
    assert "python3-venv" in apt and not re.findall(INJECTED, apt)
    assert not [name for name, _ in pins("r32") if re.match(INJECTED, name)]
    (venv,) = [text for text in dockerfile.of("r32", "RUN") if "-m venv" in text]
    assert "--system-site-packages" in venv  # the host's tensorrt


@pytest.mark.parametrize("kind", KINDS)
def test_an_image_is_no_roots_has_a_health_check_and_pins_what_pip_installs(kind):
    assert dockerfile.of(kind, "USER") == ["10001"]
    (check,) = dockerfile.of(kind, "HEALTHCHECK")
    assert '"/opt/edgeformer/docker/health.py"' in check
    assert dockerfile.environment(kind)["LC_ALL"] == "C.UTF-8"
    runs = " && ".join(dockerfile.of(kind, "RUN")).split(" && ")
    installs = [text for text in runs if re.search(r"\b(?:install|download)\b", text)]
    installs = [text for text in installs if "apt-get" not in text]
    assert len(installs) >= 2
    for text in installs:
        assert "--no-deps" in text
        assert re.search(r"-r /opt/|\.whl$", text), text
    for text in runs:
        assert "apt-get install" not in text or "--no-install-recommends" in text


@pytest.mark.parametrize("kind", KINDS)
def test_what_an_image_copies_is_in_the_repository(kind):
    for sources, _ in dockerfile.copied(kind):
        for source in sources:
            assert source == "dist/edgeformer-*.whl" or os.path.isfile(os.path.join(ROOT, source))
            assert source.startswith(("docker/", "dist/"))
