"""The parser of tegrastats: every published line, and what becomes of lines."""

import random

import pytest

from edgeformer.device.clocks import median_hz
from edgeformer.device.rails import board_watts
from edgeformer.device.tegrastats import parse
from tests.device.samples import SAMPLES

MIB = 1 << 20
# By eye, from the lines: RAM used (MB), cores on / off, GPU %, GPU MHz, EMC %, hottest sensor
# (C), sensors that are on, rails, the whole board (W).
EXPECTED = {
    "nano-r32-user": (330, 4, 0, 42, None, 0, 100, 6, 3, 0.933),
    "nano-r32-root": (331, 4, 0, 42, 76, 3, 100, 6, 3, 0.933),
    "nano-r32-idle": (534, 4, 0, 0, 76, 0, 100, 6, 3, 1.022),
    "nano-jp461": (1923, 4, 0, 0, 76, 0, 50, 6, 3, 1.750),
    "nano-r32-busy": (3431, 4, 0, 0, 76, 5, 50, 6, 3, 3.014),
    "nano-r32-5w": (1409, 2, 2, 0, 76, 0, 50, 6, 3, 2.003),
    "nano-r32-vic": (957, 4, 0, 0, 76, 1, 100, 6, 3, 0.998),
    "nano-r321-noswap": (724, 4, 0, 0, 153, 4, 100, 6, 3, 0.877),
    "orinnx-r35-root": (6334, 4, 4, 0, 611, 0, 48.875, 9, 3, 5.299),
    "agxorin-r35-root": (2257, 12, 0, 42, 0, 0, 41.656, 7, 4, 7.009),
    "agxorin-r35-user": (2257, 12, 0, 42, None, 0, 41.468, 7, 0, None),
    "xaviernx-r35": (3168, 6, 0, 0, 114, 2, 50, 6, 3, 2.763),
    "orinnano-r36-idle": (3452, 6, 0, 0, None, None, 50.25, 6, 3, 4.824),
    "orinnano-r3643": (2147, 6, 0, 0, None, None, 48.625, 6, 3, 4.556),
    "orinnano-r36-headless": (775, 6, 0, 0, None, None, 49.156, 6, 3, 4.761),
    "orinnano-r36-clocks": (779, 6, 0, 0, None, None, 50.562, 6, 3, 6.626),
    "orinnano-r36-loaded": (1483, 6, 0, 62, 612, None, 50, 6, 3, 4.541),
    "orinnano4-r36-root": (1484, 6, 0, 0, 305, 0, 56.281, 6, 2, 4.428),
    "agxorin-r36-root": (29114, 12, 0, 0, 305, 1, 53.062, 6, 3, 12.377),
    "agxorin-r39-root": (20642, 12, 0, 12, 1300, 3, 52.968, 4, 3, 13.907),
}
# The same of clocks (MHz): the median of the cores that are on, the lower one of two; the memory's.
CLOCKS = {
    "nano-r32-user": (102, None),
    "nano-r32-root": (102, 204),
    "nano-r32-idle": (204, 204),
    "nano-jp461": (1224, 1600),
    "nano-r32-busy": (1479, 1600),
    "nano-r32-5w": (518, 1600),
    "nano-r32-vic": (102, 204),
    "nano-r321-noswap": (102, 204),
    "orinnx-r35-root": (729, 2133),
    "agxorin-r35-root": (729, 204),
    "agxorin-r35-user": (729, None),
    "xaviernx-r35": (1190, 204),
    "orinnano-r36-idle": (1420, None),
    "orinnano-r3643": (729, None),
    "orinnano-r36-headless": (729, None),
    "orinnano-r36-clocks": (1344, None),
    "orinnano-r36-loaded": (729, None),
    "orinnano4-r36-root": (729, 2133),
    "agxorin-r36-root": (2201, 2133),
    "agxorin-r39-root": (2201, 3199),
}


def told(line):
    reading = parse(line)
    heat = reading.temperatures_c
    watts = board_watts(reading.rails_w)
    return (
        reading.ram_used_bytes // MIB,
        sum(load is not None for load in reading.cores),
        sum(load is None for load in reading.cores),
        None if reading.gpu_load is None else round(reading.gpu_load * 100),
        None if reading.gpu_hz is None else reading.gpu_hz // 1000000,
        None if reading.memory_load is None else round(reading.memory_load * 100),
        max(heat.values()),
        len(heat),
        len(reading.rails_w),
        None if watts is None else round(watts, 6),
    )


def facts(reading):
    """Every single thing that a reading claims."""
    found = set()
    for field, value in reading._asdict().items():
        if isinstance(value, dict):
            found |= {(field, name, number) for name, number in value.items()}
        elif value is not None and value != ():
            found.add((field, value))
    return found


def test_there_is_an_expectation_for_every_sample():
    assert set(EXPECTED) == set(SAMPLES) == set(CLOCKS)
    assert len(SAMPLES) == 20


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_every_published_line_is_read(name):
    assert told(SAMPLES[name]) == EXPECTED[name]
    assert told(SAMPLES[name].encode("ascii") + b"\n") == EXPECTED[name]


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_clocks_of_cores_and_memory_are_read_from_every_line(name):
    reading = parse(SAMPLES[name])
    cpu, memory = CLOCKS[name]
    assert median_hz(reading.cores_hz) == cpu * 10**6
    assert reading.memory_hz == (None if memory is None else memory * 10**6)
    assert [hz is None for hz in reading.cores_hz] == [load is None for load in reading.cores]


def test_a_line_of_the_five_watt_mode_tells_which_cores_are_off():
    assert parse(SAMPLES["nano-r32-5w"]).cores == (0.22, 0.67, None, None)
    assert parse(SAMPLES["nano-r32-5w"]).cpu_load() == pytest.approx(0.445)


def test_sensors_that_are_off_and_rails_that_are_not_connected_are_left_out():
    reading = parse(SAMPLES["agxorin-r35-root"])
    assert "GPU" not in reading.temperatures_c
    assert "NC" not in reading.rails_w


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_a_line_cut_anywhere_tells_less_and_never_something_else(name):
    line = SAMPLES[name]
    whole = facts(parse(line))
    for cut in range(len(line)):
        assert facts(parse(line[:cut])) <= whole, line[:cut]
        assert facts(parse(line[cut:])) <= whole, line[cut:]


def test_half_a_line_still_tells_what_is_whole_in_it():
    line = SAMPLES["nano-jp461"]
    begun = parse(line[: line.index("AO@")])
    assert begun.ram_used_bytes == 1923 * MIB
    assert begun.temperatures_c == {"PLL": 37.0, "CPU": 40.0, "PMIC": 50.0, "GPU": 40.0}
    assert begun.rails_w == {}
    assert parse(line[line.index(" POM_5V_IN") :]).rails_w["POM_5V_IN"] == 1.75


def test_a_line_that_lost_a_part_of_its_time_is_read():
    line = SAMPLES["orinnano-r36-idle"]
    for cut in range(len("06-18-2025 11:25:24 ")):
        assert parse(line[cut:]) == parse(line)


def test_a_line_that_begins_inside_another_is_never_read_as_part_of_it():
    chance = random.Random(1)
    lines = sorted(SAMPLES.values())
    beginning = len("01-03-2023 16:07:54 RAM 20642/62817MB")
    told = 0
    for _ in range(3000):
        one, other = chance.choice(lines), chance.choice(lines)
        cut = chance.randrange(beginning, len(one))
        end = chance.randrange(beginning, len(other) + 1)
        mixed = one[:cut] + other[:end] + one[cut:]
        found = facts(parse(mixed))
        assert found <= facts(parse(one)), mixed
        told += len(found)
    assert told > 3000 * 5


def test_two_whole_lines_in_one_give_the_first():
    first, second = SAMPLES["nano-jp461"], SAMPLES["nano-r32-busy"]
    assert parse(first + " " + second) == parse(first)
    glued = parse(first + second)  # "406RAM": the last rail's average, which nobody reads, is hurt
    assert glued.ram_used_bytes == 1923 * MIB
    assert glued.rails_w == {"POM_5V_IN": 1.75, "POM_5V_GPU": 0.0}


def test_a_field_that_stands_twice_and_differs_is_left_out():
    reading = parse("RAM 1/3964MB CPU@40C CPU@41C GPU@39C GPU@39C POM_5V_IN 5/5 POM_5V_IN 6/6 ")
    assert reading.temperatures_c == {"GPU": 39.0}
    assert reading.rails_w == {}


def test_binary_garbage_is_survived_and_says_nothing():
    chance = random.Random(2)
    assert facts(parse("")) == set()
    for length in [0, 1, 7, 300, 5000] * 40:
        garbage = bytes(chance.randrange(256) for _ in range(length))
        assert facts(parse(garbage)) == set()
        assert facts(parse(garbage.decode("latin-1"))) == set()


@pytest.mark.parametrize("name", ["nano-r32-root", "orinnano-r36-loaded", "agxorin-r36-root"])
def test_bytes_knocked_out_of_a_line_are_never_read_as_another_number(name):
    chance = random.Random(3)
    line = SAMPLES[name].encode("ascii")
    whole = facts(parse(line))
    for _ in range(500):
        place, length = chance.randrange(len(line)), chance.randrange(1, 40)
        noise = bytes(chance.choice(b"\0\xff\x80\x01\x9c") for _ in range(length))
        hurt = line[:place] + noise + line[place + length :]
        assert facts(parse(hurt)) <= whole, hurt


def test_impossible_figures_are_no_figures():
    assert parse("RAM 5000/3964MB ").ram_used_bytes is None
    assert parse("RAM 1/3964MB GR3D_FREQ 420% ").gpu_load is None
    assert parse("RAM 1/3964MB CPU [120%@102,1%@102] ").cores == ()
    assert parse("RAM 1/3964MB CPU@900C ").temperatures_c == {}


def test_a_hostile_line_is_read_in_time_that_grows_with_its_length():
    import time

    for piece in ("GPU@", "CPU [", "POM_5V_IN 1/", "GR3D_FREQ 1%@[1,", " ", "A" * 50 + " 1/"):
        began = time.perf_counter()
        parse(piece * (1000000 // len(piece)))
        assert time.perf_counter() - began < 1.0
