"""File trees as the kernels of a Nano, an Orin Nano and a PC show them."""

import os
import stat

from tests.device.samples import PATH

NANO_CONF = """# a comment
< POWER_MODEL ID=0 NAME=MAXN >
CPU_ONLINE CORE_0 1
< POWER_MODEL ID=1 NAME=5W >
CPU_ONLINE CORE_2 0
< PM_CONFIG DEFAULT=0 >
"""
ORIN_CONF = """< POWER_MODEL ID=0 NAME=15W >
< POWER_MODEL ID=1 NAME=25W >
< POWER_MODEL ID=2 NAME=MAXN_SUPER >
< POWER_MODEL ID=3 NAME=7W >
"""
MEMINFO = """MemTotal:        4059528 kB
MemFree:         1234567 kB
MemAvailable:    2345678 kB
"""
STAT = "cpu  100 0 50 800 50 0 0 0 0 0\ncpu0 100 0 50 800 50 0 0 0 0 0\n"
NANO_INA = "sys/bus/i2c/drivers/ina3221x/6-0040/iio:device0/"
ORIN_INA = "sys/bus/i2c/drivers/ina3221/1-0040/hwmon/hwmon1/"
ORIN_GPU = "sys/class/devfreq/17000000.gpu/"
NANO_GPU = "sys/class/devfreq/57000000.gpu/"


def write(root, path, text):
    full = os.path.join(str(root), path)
    if not os.path.isdir(os.path.dirname(full)):
        os.makedirs(os.path.dirname(full))
    with open(full, "wb") as file:
        file.write(text if isinstance(text, bytes) else text.encode("utf-8"))
    return full


def _machine(root, meminfo=MEMINFO):
    write(root, "proc/meminfo", meminfo)
    write(root, "proc/stat", STAT)
    write(root, "sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n")


def _cpu(root, cores, low, high, now, governor="schedutil"):
    for core in range(cores):
        folder = "sys/devices/system/cpu/cpu%d/cpufreq/" % core
        write(root, folder + "scaling_min_freq", str(low))
        write(root, folder + "scaling_max_freq", str(high))
        write(root, folder + "scaling_cur_freq", str(now))
        write(root, folder + "scaling_governor", governor + "\n")


def _zones(root, zones):
    for number, (name, temperature) in enumerate(zones):
        folder = "sys/class/thermal/thermal_zone%d/" % number
        write(root, folder + "type", name + "\n")
        write(root, folder + "temp", "%d\n" % temperature)


def _cooling(root, devices):
    for number, (name, state) in enumerate(devices):
        folder = "sys/class/thermal/cooling_device%d/" % number
        write(root, folder + "type", name + "\n")
        write(root, folder + "cur_state", "%d\n" % state)


def _gpu(root, folder, low, high, now):
    write(root, folder + "min_freq", str(low))
    write(root, folder + "max_freq", str(high))
    write(root, folder + "cur_freq", str(now))


def nano(root):
    """A 4 GB Nano, JetPack 4.6.1, MAXN, clocks locked."""
    _machine(root)
    write(root, "proc/device-tree/model", b"NVIDIA Jetson Nano Developer Kit\0")
    compatible = b"nvidia,p3449-0000-b00+p3448-0000-b00\0nvidia,jetson-nano\0nvidia,tegra210\0"
    write(root, "proc/device-tree/compatible", compatible)
    release = "# R32 (release), REVISION: 7.1, GCID: 29818004, BOARD: t210ref, EABI: aarch64\n"
    write(root, "etc/nv_tegra_release", release)
    write(root, "etc/nvpmodel.conf", NANO_CONF)
    write(root, "var/lib/nvpmodel/status", "pmode:0000\n")
    for number, (rail, power) in enumerate(
        (("POM_5V_IN", 3014), ("POM_5V_GPU", 400), ("POM_5V_CPU", 1044))
    ):
        write(root, NANO_INA + "rail_name_%d" % number, rail + "\n")
        write(root, NANO_INA + "in_power%d_input" % number, "%d\n" % power)
    _cpu(root, 4, 1479000, 1479000, 1479000)
    _gpu(root, NANO_GPU, 921600000, 921600000, 921600000)
    write(root, "sys/devices/gpu.0/load", "620\n")
    _zones(root, [("AO-therm", 48500), ("CPU-therm", 41500), ("PMIC-Die", 100000)])
    _cooling(root, [("pwm-fan", 2), ("cpu-balanced", 0), ("gpu-balanced", 0)])
    return str(root)


def orin_nano(root):
    """An 8 GB Orin Nano, JetPack 6.2, 25W, clocks free."""
    _machine(root)
    write(root, "proc/device-tree/model", b"NVIDIA Jetson Orin Nano Engineering Reference Kit\0")
    compatible = b"nvidia,p3768-0000+p3767-0005-super\0nvidia,p3767-0005\0nvidia,tegra234\0"
    write(root, "proc/device-tree/compatible", compatible)
    release = "# R36 (release), REVISION: 4.3, GCID: 38968081, BOARD: generic, EABI: aarch64\n"
    write(root, "etc/nv_tegra_release", release)
    write(root, "etc/nvpmodel.conf", ORIN_CONF)
    write(root, "var/lib/nvpmodel/status", "pmode:0001 fmode:quiet\n")
    rails = (("VDD_IN", 5000, 1325), ("VDD_CPU_GPU_CV", 5000, 245), ("VDD_SOC", 5000, 476))
    for number, (rail, millivolts, milliamperes) in enumerate(rails, 1):
        write(root, ORIN_INA + "in%d_label" % number, rail + "\n")
        write(root, ORIN_INA + "in%d_input" % number, "%d\n" % millivolts)
        write(root, ORIN_INA + "curr%d_input" % number, "%d\n" % milliamperes)
    write(root, ORIN_INA + "in7_label", "Sum of shunt voltages\n")
    write(root, ORIN_INA + "in7_input", "12\n")
    _cpu(root, 6, 729600, 1344000, 729600)
    _gpu(root, ORIN_GPU, 306000000, 918000000, 306000000)
    write(root, ORIN_GPU + "device/load", "55\n")
    _zones(root, [("cpu-thermal", 50031), ("cv0-thermal", -256000), ("tj-thermal", 50250)])
    _cooling(root, [("pwm-fan", 1), ("cpu-throttle-alert", 0), ("gpu-throttle-alert", 0)])
    return str(root)


def pc(root):
    """A PC: no board, no rails, a temperature."""
    _machine(root)
    _cpu(root, 2, 800000, 4000000, 1200000, "powersave")
    _zones(root, [("x86_pkg_temp", 61000)])
    _cooling(root, [("Processor", 0)])
    return str(root)


def tegrastats(folder, sample="nano-r32-busy", name="tegrastats"):
    """A program that writes a published line every interval, and its number into `pid`."""
    path = os.path.join(str(folder), name)
    text = """#!/bin/sh
echo $$ >> %s/pid
line=$(grep -A1 '^@ %s |' %s | tail -1)
while :; do echo "$line"; sleep 0.05; done
"""
    write(folder, name, text % (folder, sample, os.path.abspath(PATH)))
    os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)
    return path
