"""Each trap of Python and its packages that has a symptom: a library that fails is a finding."""

import sys
from time import perf_counter

import pytest

from edgeformer.device.doctor import examine, probes
from tests.device import boards
from tests.device.doctor import fakes
from tests.device.doctor.fakes import absent, answers, fails, of, telling

REFUSED = "numpy.core.multiarray failed to import"


# What a probe answers, and what the doctor makes of it: topic, status, words of fact and fix.
PROBES = {
    "numpy 1.19.5 dies of SIGILL": (
        {
            "numpy": '[ -n "$OPENBLAS_CORETYPE" ] || kill -ILL $$; echo \'@edgeformer '
            '{"version": "1.19.5", "right": true}\''
        },
        (
            "numpy",
            "blocks",
            "1.19.5 dies with an illegal instruction",
            "OPENBLAS_CORETYPE=ARMV8; "
            "/venv/bin/python -m pip install --only-binary=:all: --no-deps numpy==1.19.4",
        ),
    ),
    "a numpy that no variable cures": (
        {"numpy": "kill -ILL $$"},
        ("numpy", "blocks", "illegal instruction", "numpy==1.19.4"),
    ),
    "numpy 1.19.5 that computes only because a variable is set": (
        {"numpy": telling(version="1.19.5", right=True)},
        ("numpy", "problem", "1.19.5 on a Jetson", "numpy==1.19.4"),
    ),
    "apt's numpy 1.13.3": (
        {
            "numpy": telling(version="1.13.3", path="/usr/lib/python3/dist-packages", right=True),
            "onnxruntime": fails(REFUSED, version="1.10.0"),
        },
        ("onnxruntime", "problem", "does not go with numpy 1.13.3", "numpy==1.19.4"),
    ),
    "an old numpy by itself": (
        {"numpy": telling(version="1.13.3", path="/usr/lib", right=True)},
        ("numpy", "problem", "numpy 1.13.3, /usr/lib", "numpy==1.19.4"),
    ),
    "a numpy that multiplies wrongly": (
        {"numpy": telling(version="1.19.4", right=False)},
        ("numpy", "blocks", "wrongly", "numpy==1.19.4"),
    ),
    "no numpy": ({"numpy": absent("numpy")}, ("numpy", "blocks", "not installed", "numpy==1.19.4")),
    "no onnxruntime and no GPU": (
        {"onnxruntime": absent("onnxruntime"), "pycuda": absent("pycuda")},
        ("onnxruntime", "blocks", "not installed", "--no-deps onnxruntime==1.10.0"),
    ),
    "no onnxruntime beside a GPU": (
        {"onnxruntime": absent("onnxruntime")},
        ("onnxruntime", "problem", "not installed", "onnxruntime==1.10.0"),
    ),
    "a chroot without /sys": (
        {
            "onnxruntime": "echo 'Attempt to use DefaultLogger but none has been registered' >&2; "
            "kill -ABRT $$"
        },
        ("onnxruntime", "problem", "no default logger", "mount -t sysfs"),
    ),
    "an onnxruntime that computes wrongly": (
        {"onnxruntime": telling(version="1.10.0", right=False)},
        ("onnxruntime", "problem", "wrongly", "onnxruntime==1.10.0"),
    ),
    "pip 9.0.1": (
        {"pip": telling(version="9.0.1")},
        ("pip", "problem", "pip 9.0.1", "-m pip install 'pip==21.3.1'"),
    ),
    "another Python than JetPack's": (
        {"python": telling(version="3.8.0", arch="aarch64", executable="/usr/bin/python3.8")},
        ("Python", "problem", "R32.7.4 comes with 3.6", "python3.6 -m edgeformer doctor"),
    ),
    "pip's tensorrt on a Jetson": (
        {"tensorrt": telling(version="8.6.1", path="/venv/tensorrt")},
        ("tensorrt module", "problem", "8.6.1", "-m pip uninstall tensorrt"),
    ),
    "a tensorrt of another major version": (
        {"tensorrt": fails("libnvinfer.so.7: cannot open shared object file")},
        (
            "tensorrt module",
            "problem",
            "wants libnvinfer.so.7, and here is libnvinfer 8.2.1",
            "nvidia-jetpack",
        ),
    ),
    "a tensorrt out of step with its library": (
        {"tensorrt": telling(version="8.2.3.0", path="/usr/lib")},
        ("tensorrt module", "problem", "8.2.3.0 beside the library of 8.2.1", "reinstall"),
    ),
    "a library for which there is no memory": (
        {"jinja2": "kill -KILL $$"},
        ("jinja2", "note", "where memory ends", "jinja2"),
    ),
    "no tensorrt": (
        {"tensorrt": absent("tensorrt")},
        ("tensorrt module", "problem", "not installed", "python3-libnvinfer"),
    ),
    "no pycuda": (
        {"pycuda": absent("pycuda")},
        ("pycuda", "problem", "not installed", "jetson_setup.sh, which compiles pycuda==2021.1"),
    ),
    "a pycuda of another CUDA": (
        {"pycuda": fails("libcurand.so.11: cannot open shared object file", version="2021.1")},
        ("pycuda", "problem", "another CUDA", "--force-reinstall --no-cache-dir"),
    ),
    "a pycuda that crashes": (
        {"pycuda": "kill -SEGV $$"},
        ("pycuda", "problem", "SIGSEGV", ""),
    ),
    "no jinja2": (
        {"jinja2": absent("jinja2")},
        ("jinja2", "note", "not installed", "Jinja2==3.0.3"),
    ),
    "a Python that does not start": (
        {"python": "exit 127"},
        ("Python", "blocks", "no answer", ""),
    ),
}


@pytest.mark.parametrize("name", sorted(PROBES))
def test_a_library_that_fails_is_a_finding(name, tmp_path):
    changes, (topic, status, fact, fix) = PROBES[name]
    if "jinja2" in changes:
        fix = "jinja2"
    found = fakes.found(fakes.nano(tmp_path / "root"), answers(**changes))
    (finding,) = of(found, topic)
    assert (finding.status, fact in finding.fact, fix in finding.fix) == (status, True, True), found
    assert finding.why


def test_a_venv_that_does_not_see_apts_tensorrt_is_told_apart_from_one_that_has_none(tmp_path):
    root, venv = fakes.nano(tmp_path / "root"), str(tmp_path / "venv")
    boards.write(root, "usr/lib/python3.6/dist-packages/tensorrt/__init__.py", "")
    boards.write(venv, "pyvenv.cfg", "include-system-site-packages = false\n")
    told = answers(tensorrt=absent("tensorrt"))
    told["python"].update(prefix=venv)
    (finding,) = of(fakes.found(root, told), "tensorrt module")
    assert "this venv does not see it" in finding.fact
    assert "venv --system-site-packages " + venv in finding.fix
    boards.write(venv, "pyvenv.cfg", "include-system-site-packages = true\n")
    (finding,) = of(fakes.found(root, told), "tensorrt module")
    assert "not for this one" in finding.fact


def test_a_child_that_hangs_is_ended_and_told(tmp_path, monkeypatch):
    monkeypatch.setattr(probes, "PATIENCE", 0.2)
    found = fakes.found(fakes.nano(tmp_path / "root"), answers(tokenizers="exec sleep 30"))
    (finding,) = of(found, "tokenizers")
    assert "did not answer within 0 s" in finding.fact


def test_this_very_interpreter_is_tried_out_in_children_and_quickly(tmp_path):
    began = perf_counter()
    found = examine(root=boards.pc(tmp_path / "root"))
    seconds = perf_counter() - began
    assert not of(found, "numpy")[0].why, found
    assert "runs a graph" in of(found, "onnxruntime")[0].fact
    assert "%d.%d" % sys.version_info[:2] in of(found, "Python")[0].fact
    assert seconds < 20  # 2 where nothing else runs; tests share their machine
