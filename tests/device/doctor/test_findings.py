"""Each trap of a Jetson that has a symptom: the symptom is faked, and the doctor names it."""

import json
import os

import pytest

from edgeformer.device.doctor.findings import STATUSES, as_json, described
from tests.device import boards
from tests.device.doctor import fakes
from tests.device.doctor.fakes import absent, answers, fails, of


def worst(findings):
    return max((STATUSES.index(finding.status) for finding in findings), default=0)


@pytest.mark.parametrize(
    "machine, told",
    [
        (fakes.nano, answers()),
        (fakes.orin_nano, fakes.orin_answers()),
        (fakes.container, answers()),
    ],
)
def test_a_board_in_good_order_has_nothing_but_ok(machine, told, tmp_path):
    found = fakes.found(machine(tmp_path / "root"), told)
    assert [finding for finding in found if finding.status != "ok"] == []
    assert all(not finding.why and not finding.fix for finding in found)
    for topic in ("board", "L4T", "CUDA", "cuDNN library", "TensorRT library", "tensorrt module"):
        assert of(found, topic), topic


# What of a healthy Nano's files is changed, and what the doctor makes of it.
def write(path, text):
    return lambda root: boards.write(root, path, text)


def link(path, target):
    def linked(root):
        full = os.path.join(root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        os.symlink(target, full)

    return linked


def gone(*paths):
    return lambda root: [fakes.remove(root, path) for path in paths]


def both(*changes):
    return lambda root: [change(root) for change in changes]


MEMORY = "MemTotal: 4059528 kB\nMemFree: %d kB\nMemAvailable: %d kB\n"
JSON = '{"default-runtime": "nvidia"}'
LISTED = [
    write("etc/nvidia-container-runtime/host-files-for-container.d/%s.csv" % name, "x")
    for name in ("l4t", "cuda", "cudnn", "tensorrt")
]
DOCKER = write("usr/bin/docker", "")
FILES = {
    "JetPack 4.6, whose TensorRT is 8.0": (
        write("etc/nv_tegra_release", "# R32 (release), REVISION: 6.1, GCID: 1\n"),
        ("L4T", "problem", "TensorRT 8.0.1", "r32.7"),
    ),
    "a release that nobody knows": (
        write("etc/nv_tegra_release", "# R39 (release), REVISION: 2.0, GCID: 1\n"),
        ("L4T", "note", "R39.2.0: not a release that edgeformer knows", ""),
    ),
    "a board whose release is not told": (
        gone("etc/nv_tegra_release"),
        ("L4T", "problem", "does not tell", "JetPack image"),
    ),
    "a board of another kind": (
        write("proc/device-tree/compatible", b"nvidia,p2771\0nvidia,tegra186\0"),
        ("board", "note", "no facts", ""),
    ),
    "CUDA 11 on a Nano": (
        write("usr/local/cuda/version.txt", "CUDA Version 11.4.19\n"),
        ("CUDA", "problem", "CUDA 11.4.19, where R32.7.4 has 10.2", "cuda-10.2"),
    ),
    "no CUDA": (
        gone("usr/local/cuda/version.txt"),
        ("CUDA", "problem", "not there", "nvidia-jetpack"),
    ),
    "a TensorRT of another release": (
        both(
            gone(fakes.LIB + "libnvinfer.so.8.2.1"),
            lambda root: fakes.libraries(root, nvinfer="8.5.2"),
        ),
        ("TensorRT library", "problem", "TensorRT 8.5.2, where R32.7.4 has 8.2", "reinstall"),
    ),
    "no TensorRT": (
        gone(fakes.LIB + "libnvinfer.so.8.2.1", fakes.LIB + "libnvinfer.so.8"),
        ("TensorRT library", "problem", "not there", "nvidia-jetpack"),
    ),
    "memory taken by others, whatever page cache there is": (
        write("proc/meminfo", MEMORY % (400000, 500000)),
        ("memory", "problem", "488 of 3964", "multi-user"),
    ),
    "a desktop that runs": (
        write("proc/4711/comm", "gnome-shell\n"),
        ("desktop", "note", "runs (gnome-shell)", "set-default multi-user.target"),
    ),
    "a desktop that starts at boot": (
        link("etc/systemd/system/default.target", "/lib/systemd/system/graphical.target"),
        ("desktop", "note", "starts at boot", "multi-user.target"),
    ),
    "no swap at all": (
        write("proc/swaps", fakes.swaps()),
        ("swap", "problem", "0 MiB on disk", "jetson_setup.sh --swap 4G"),
    ),
    "zram alone": (
        write("proc/swaps", fakes.swaps(*[("/dev/zram%d" % n, 507 << 20) for n in range(4)])),
        ("swap", "note", "2028 MiB of zram", "jetson_setup.sh --swap 4G"),
    ),
    "5W, which outlives a reboot": (
        write("var/lib/nvpmodel/status", "pmode:0001\n"),
        ("power mode", "note", "5W; the fastest here is MAXN", "sudo nvpmodel -m 0"),
    ),
    "a mode that is not told": (
        gone("var/lib/nvpmodel/status"),
        ("power mode", "note", "not told", "nvpmodel -q"),
    ),
    "cores that are off": (
        write("sys/devices/system/cpu/offline", "2-3\n"),
        ("cores", "note", "off: 2-3", "nvpmodel"),
    ),
    "clocks that are free": (
        write("sys/devices/system/cpu/cpu0/cpufreq/scaling_min_freq", "102000"),
        ("clocks", "note", "free to fall", "sudo jetson_clocks"),
    ),
    "a hot board": (
        write("sys/class/thermal/thermal_zone1/temp", "88000\n"),
        ("temperature", "problem", "88 C", "fan"),
    ),
    "a board that slows down": (
        write("sys/class/thermal/cooling_device1/cur_state", "1\n"),
        ("throttling", "problem", "slows itself down", "5 V 4 A"),
    ),
    "a weak supply": (
        write("sys/class/hwmon/hwmon3/oc1_event_cnt", "7\n"),
        ("supply", "problem", "oc1_event_cnt", "5 V 4 A"),
    ),
    "a list of the container runtime that was lost": (
        both(DOCKER, write("etc/docker/daemon.json", JSON), *LISTED[:3]),
        ("container lists", "problem", "lacks tensorrt.csv", "nvidia-container-csv-tensorrt"),
    ),
    "a container runtime that leaves CUDA out": (
        both(DOCKER, write(fakes.LIB + "libnvidia-container.so.0.11.0", "x"), *LISTED),
        ("container runtime", "note", "0.11.0", "NVIDIA_REQUIRE_JETPACK=csv-mounts=all"),
    ),
    "a docker whose default runtime is its own": (
        both(DOCKER, write("etc/docker/daemon.json", "{not json"), *LISTED),
        ("docker", "note", "not nvidia", '"default-runtime": "nvidia"'),
    ),
}


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_machine_that_is_not_in_order_is_a_finding(name, tmp_path):
    change, (topic, status, fact, fix) = FILES[name]
    root = fakes.nano(tmp_path / "root")
    change(root)
    found = fakes.found(root, answers())
    (finding,) = of(found, topic)
    assert (finding.status, fact in finding.fact, fix in finding.fix) == (status, True, True), found
    assert finding.why


INSIDE = {
    "a container without --runtime nvidia": (
        gone("dev/nvmap"),
        ("mounts", "problem", "no GPU in this container", "--runtime nvidia ..., as docker/run.sh"),
    ),
    "a container whose lists were left out": (
        gone(fakes.LIB + "libnvinfer.so.8.2.1", fakes.LIB + "libnvinfer.so.8"),
        ("mounts", "problem", "no libnvinfer", "NVIDIA_REQUIRE_JETPACK=csv-mounts=all"),
    ),
    "an image's empty file that nothing was mounted over": (
        both(gone(fakes.LIB + "libnvinfer.so.8.2.1"), write(fakes.LIB + "libnvinfer.so.8", "")),
        ("TensorRT library", "problem", "libnvinfer.so.8 has no bytes", "--runtime nvidia"),
    ),
    "a container that does not know its board": (
        gone("proc/device-tree/compatible"),
        ("board", "note", "which Jetson", "start it with docker/run.sh"),
    ),
    "no power sensors and no tegrastats": (
        gone(*[boards.NANO_INA + "rail_name_%d" % n for n in range(3)]),
        ("sensors", "note", "tegrastats", "-v /usr/bin/tegrastats"),
    ),
}


@pytest.mark.parametrize("name", sorted(INSIDE))
def test_a_container_that_lacks_something_is_a_finding(name, tmp_path):
    change, (topic, status, fact, fix) = INSIDE[name]
    root = fakes.container(tmp_path / "root")
    change(root)
    found = fakes.found(root, answers())
    (finding,) = of(found, topic)
    assert (finding.status, fact in finding.fact, fix in finding.fix) == (status, True, True), found


def test_a_container_without_a_driver_names_the_runtime(tmp_path):
    told = answers(pycuda=fails("libcuda.so.1: cannot open shared object file"))
    (finding,) = of(fakes.found(fakes.container(tmp_path / "root"), told), "pycuda")
    assert "no CUDA driver" in finding.fact
    assert "--runtime nvidia (not --gpus all)" in finding.fix


def test_from_r35_on_an_image_holds_the_libraries_itself(tmp_path):
    root = fakes.orin_nano(tmp_path / "root")
    both(write(".dockerenv", ""), write("dev/nvmap", ""))(root)
    (finding,) = of(fakes.found(root, fakes.orin_answers()), "mounts")
    assert "not in this image: libcudart" in finding.fact
    assert "docker/run.sh takes an image that does" in finding.fix


@pytest.mark.parametrize("name", ["tensorrt", "pycuda"])
def test_a_module_that_a_container_lacks_is_in_the_images_of_docker_run(name, tmp_path):
    told = answers(**{name: fakes.absent(name)})
    (finding,) = [
        finding
        for finding in fakes.found(fakes.container(tmp_path / "root"), told)
        if finding.topic.startswith(name) and finding.status == "problem"
    ]
    assert "docker/run.sh" in finding.fix and "jetson_setup.sh" not in finding.fix
    (outside,) = of(fakes.found(fakes.nano(tmp_path / "board"), told), finding.topic)
    assert "docker/run.sh" not in outside.fix


def test_nvcc_that_is_not_on_path_is_noted_with_the_three_variables(tmp_path):
    found = fakes.found(fakes.nano(tmp_path / "root"), answers(), path="/usr/bin:/bin")
    (finding,) = of(found, "CUDA")
    assert finding.status == "note"
    for variable in ("PATH=", "CPATH=", "LIBRARY_PATH="):
        assert variable in finding.fix


def test_the_fastest_mode_of_an_orin_is_found_by_name_and_not_by_number(tmp_path):
    root = fakes.orin_nano(tmp_path / "root")
    boards.write(root, "var/lib/nvpmodel/status", "pmode:0000\n")
    (finding,) = of(fakes.found(root, fakes.orin_answers()), "power mode")
    assert (finding.status, finding.fix) == ("note", "sudo nvpmodel -m 2")
    boards.write(root, "etc/nvpmodel.conf", boards.ORIN_CONF.replace("MAXN_SUPER", "40W"))
    (finding,) = of(fakes.found(root, fakes.orin_answers()), "power mode")
    assert "fastest here is 40W" in finding.fact


@pytest.mark.parametrize("free, status", [(60 << 20, "blocks"), (900 << 20, "problem")])
def test_a_disk_that_is_nearly_full_is_found(free, status, tmp_path):
    found = fakes.found(fakes.nano(tmp_path / "root"), answers(), free=free)
    (finding,) = of(found, "disk")
    assert (finding.status, "df -h" in finding.fix) == (status, True)


def test_on_a_pc_only_what_applies_there_is_told(tmp_path):
    told = answers(arch="x86_64", tensorrt=absent("tensorrt"), pycuda=absent("pycuda"))
    found = fakes.found(boards.pc(tmp_path / "root"), told)
    assert worst(found) == 0, found
    assert "no Jetson: x86_64" in found[0].fact
    topics = {finding.topic for finding in found}
    assert not topics & {"L4T", "power mode", "clocks", "swap", "desktop", "tensorrt module"}
    assert {"board", "Python", "numpy", "onnxruntime", "memory", "disk"} <= topics


def test_findings_are_json_and_lines_that_say_the_same(tmp_path):
    told = answers(numpy="kill -ILL $$")
    found = fakes.found(fakes.nano(tmp_path / "root"), told)
    data = json.loads(json.dumps(as_json(found)))
    assert data["counts"]["blocks"] == 1
    assert sum(data["counts"].values()) == len(data["findings"]) == len(found)
    assert set(data["findings"][0]) == {"topic", "status", "fact", "why", "fix"}
    text = described(found)
    for finding in found:
        assert finding.fact in text
        assert finding.fix in text
