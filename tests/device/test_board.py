"""What boards tell about themselves, from trees of files as their kernels show them."""

import os

from edgeformer.device import board, heat, memory, rails
from tests.device import boards


def test_a_nano_with_locked_clocks_is_described(tmp_path):
    found = board.read_board(boards.nano(tmp_path))
    assert found == board.Board(
        "NVIDIA Jetson Nano Developer Kit", "jetson-nano", "32.7.1", "4.6.1", "MAXN", True
    )


def test_the_power_mode_of_an_orin_nano_is_found_by_name_and_not_by_number(tmp_path):
    found = board.read_board(boards.orin_nano(tmp_path))
    assert found.target == "jetson-orin-nano"
    assert (found.l4t, found.jetpack) == ("36.4.3", "6.2")
    assert (found.power_mode, found.clocks_locked) == ("25W", False)
    boards.write(tmp_path, "var/lib/nvpmodel/status", "pmode:0002")
    assert board.power_mode(str(tmp_path)) == "MAXN_SUPER"
    boards.write(tmp_path, "var/lib/nvpmodel/status", "pmode:0009")
    assert board.power_mode(str(tmp_path)) == "mode 9"


def test_a_pc_is_no_board_even_with_an_image_of_l4t_on_it(tmp_path):
    root = boards.pc(tmp_path)
    assert board.read_board(root) is None
    boards.write(root, "etc/nv_tegra_release", "# R32 (release), REVISION: 7.1, GCID: 1\n")
    assert board.read_board(root) is None


def test_a_release_that_is_not_in_the_table_has_no_jetpack(tmp_path):
    root = boards.nano(tmp_path)
    boards.write(root, "etc/nv_tegra_release", "# R36 (release), REVISION: 9.9, GCID: 1\n")
    found = board.read_board(root)
    assert (found.l4t, found.jetpack) == ("36.9.9", None)
    boards.write(root, "etc/nv_tegra_release", b"\xff\0 nothing")
    assert board.read_board(root).l4t is None


def test_clocks_are_not_locked_while_one_of_them_is_free(tmp_path):
    root = boards.nano(tmp_path)
    boards.write(root, "sys/devices/system/cpu/cpu3/cpufreq/scaling_min_freq", "102000")
    assert board.clocks_locked(root) is False
    os.remove(os.path.join(root, boards.NANO_GPU + "max_freq"))
    assert board.clocks_locked(root) is None


def test_governor_and_container_are_told(tmp_path):
    root = boards.pc(tmp_path)
    assert board.governor(root) == "powersave"
    assert not board.in_container(root)
    boards.write(root, "proc/1/cgroup", "0::/docker/0123abc\n")
    assert board.in_container(root)
    boards.write(root, "proc/1/cgroup", "0::/init.scope\n")
    boards.write(root, ".dockerenv", "")
    assert board.in_container(root)


def test_a_container_knows_its_board_by_the_names_that_are_handed_in(tmp_path):
    root = boards.nano(tmp_path)
    outside = board.read_board(root)
    tree = os.path.join(root, "proc/device-tree")
    os.makedirs(os.path.join(root, "run/edgeformer"))
    os.rename(tree, os.path.join(root, "run/edgeformer/device-tree"))
    assert board.read_board(root) == outside is not None
    os.makedirs(tree)  # empty, as Docker shows it
    assert board.read_board(root) == outside
    boards.write(tree, "compatible", b"nvidia,p3767-0005\0nvidia,tegra234\0")
    assert board.read_board(root).target == "jetson-orin-nano"  # the kernel's own counts


def test_rails_of_kernel_4_9_are_read_in_milliwatts(tmp_path):
    found = {rail.name: rail.watts() for rail in rails.find_rails(boards.nano(tmp_path))}
    assert found == {"POM_5V_IN": 3.014, "POM_5V_GPU": 0.4, "POM_5V_CPU": 1.044}
    read, counted = rails.board_meter(str(tmp_path))
    assert (read(), counted) == (3.014, "POM_5V_IN")


def test_rails_of_newer_kernels_are_voltage_times_current(tmp_path):
    found = {rail.name: rail.watts() for rail in rails.find_rails(boards.orin_nano(tmp_path))}
    assert found == {"VDD_IN": 6.625, "VDD_CPU_GPU_CV": 1.225, "VDD_SOC": 2.38}
    read, counted = rails.board_meter(str(tmp_path))
    assert (read(), counted) == (6.625, "VDD_IN")


def test_a_board_without_a_rail_for_the_whole_is_the_sum_of_its_parts():
    parts = {"VDD_GPU_SOC": 2.39, "VDD_CPU_CV": 0.796, "VIN_SYS_5V0": 3.522}
    assert round(rails.board_watts(parts), 6) == 6.708
    assert round(rails.board_watts(dict(parts, VDDQ_VDD2_1V8AO=0.301)), 6) == 7.009
    assert rails.board_watts({"VDD_GPU_SOC": 2.39, "VDD_CPU_CV": 0.796}) is None
    assert rails.board_watts({"VDD_CPU_GPU_CV": 0.5, "VDD_SOC": 1.4}) is None
    assert rails.board_watts({}) is None


def test_a_sensor_that_cannot_be_read_gives_no_power(tmp_path):
    root = boards.orin_nano(tmp_path)
    boards.write(root, boards.ORIN_INA + "curr1_input", "\n")
    read, _ = rails.board_meter(root)
    assert read() is None
    assert rails.board_meter(boards.pc(tmp_path / "pc")) == (None, "")


def test_sensors_that_are_off_or_fixed_are_not_the_temperature(tmp_path):
    nano = heat.temperatures(heat.zone_paths(boards.nano(tmp_path / "nano")))
    assert nano == {"AO-therm": 48.5, "CPU-therm": 41.5}
    assert heat.hottest(nano) == 48.5
    orin = heat.temperatures(heat.zone_paths(boards.orin_nano(tmp_path / "orin")))
    assert orin == {"cpu-thermal": 50.031, "tj-thermal": 50.25}
    assert heat.hottest({"PMIC": 100.0, "CPU": 40.0}) == 40.0  # as tegrastats names them
    assert heat.hottest({}) is None


def test_throttling_is_a_part_that_cools_by_slowing_and_not_a_fan(tmp_path):
    root = boards.orin_nano(tmp_path)
    assert heat.throttled(heat.cooling_paths(root), root) is False
    boards.write(root, "sys/class/thermal/cooling_device2/cur_state", "1")
    assert heat.throttled(heat.cooling_paths(root), root) is True


def test_throttling_is_a_locked_clock_below_its_lock_and_not_a_free_one_that_rests(tmp_path):
    root = boards.nano(tmp_path)
    assert heat.throttled(heat.cooling_paths(root), root) is False
    boards.write(root, boards.NANO_GPU + "cur_freq", "614400000")
    assert heat.throttled(heat.cooling_paths(root), root) is True
    assert heat.throttled([], boards.pc(tmp_path / "pc")) is None


def test_memory_of_this_process_is_the_kernels_own_figure():
    held = bytearray(48 << 20)
    found = memory.process_memory()
    with open("/proc/self/status") as file:
        told = [line.split() for line in file if line.startswith("VmHWM")]
    assert found.rss_bytes > len(held)
    assert abs(found.peak_rss_bytes - int(told[0][1]) * 1024) < 4 << 20
    assert found.peak_rss_bytes >= found.rss_bytes - (1 << 20)


def test_huge_pages_are_summed_where_the_kernel_only_tells_them_by_mapping(tmp_path):
    status = "Name:\tpython3\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n"
    boards.write(tmp_path, "proc/42/status", status)
    boards.write(tmp_path, "proc/42/smaps", "Size: 4 kB\nAnonHugePages:   2048 kB\n" * 3)
    found = memory.process_memory(42, str(tmp_path))
    assert found == (1 << 20, 2 << 20, 6 << 20)
    boards.write(tmp_path, "proc/42/smaps_rollup", "00-ff [rollup]\nAnonHugePages:   4096 kB\n")
    assert memory.process_memory(42, str(tmp_path)).huge_bytes == 4 << 20
    assert memory.process_memory(43, str(tmp_path)) == (None, None, None)


def test_the_machines_memory_and_huge_page_mode_are_read(tmp_path):
    root = boards.nano(tmp_path)
    assert memory.machine_memory(root) == (4059528 << 10, 2345678 << 10)
    assert memory.huge_page_mode(root) == "madvise"
    assert memory.huge_page_mode(str(tmp_path / "nowhere")) is None
