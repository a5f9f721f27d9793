"""Memory that loading leaves behind: pages of mapped weights, and holes in the heap."""

import mmap
import platform
import re
import sys

import pytest

from edgeformer.backends import open_backend
from edgeformer.bundle import Bundle
from edgeformer.release import release_heap, release_mapped
from tests import bundles
from tests.backends.test_ort_fused import runs

SIZE = 64 * mmap.PAGESIZE

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


def resident(path):
    """Bytes of a file's pages that this process has mapped and in memory."""
    with open("/proc/self/smaps") as file:
        lines = file.read().split("\n")
    found, mine = 0, False
    for line in lines:
        if re.match("[0-9a-f]+-[0-9a-f]+ ", line):
            mine = line.endswith(" " + str(path))
        elif mine and line.startswith("Rss:"):
            found += int(line.split()[1]) * 1024
    return found


def memory():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * mmap.PAGESIZE


@pytest.fixture
def mapped(tmp_path):
    """A path with regular expressions' characters in it, and a private mapping, read once."""
    path = tmp_path / "weights (1)+.bin"
    path.write_bytes(b"edge" * (SIZE // 4))
    with open(str(path), "rb") as file:
        data = mmap.mmap(file.fileno(), SIZE, access=mmap.ACCESS_COPY)
    assert data[:] == b"edge" * (SIZE // 4) and resident(path) == SIZE
    yield path, data
    data.close()


def test_pages_that_were_read_are_let_go_and_can_be_read_again(mapped):
    path, data = mapped
    release_mapped(["/nowhere", str(path)])
    assert resident(path) == 0
    assert data[:] == b"edge" * (SIZE // 4)


def test_a_mapping_that_was_written_to_keeps_what_was_written(mapped):
    path, data = mapped
    data[5:9] = b"mine"
    release_mapped([str(path)])
    assert data[:12] == b"edgeeminedge" and resident(path) == SIZE


def test_a_file_of_a_longer_name_is_another_file(mapped):
    path, _ = mapped
    release_mapped([str(path)[1:], str(path)[:-1], str(path.parent)])
    assert resident(path) == SIZE


@pytest.mark.skipif("glibc" not in platform.libc_ver(), reason="the C library of others")
def test_a_heap_full_of_holes_gets_smaller():
    held = [bytes(60000) for _ in range(2000)]  # 120 MB in pieces that malloc takes from its heap
    last = bytes(60000)  # above them all: the heap cannot simply end below
    del held
    before = memory()
    release_heap()
    assert before - memory() > 50e6 and not any(last)


@runs
def test_an_open_backend_holds_no_page_of_weights_that_it_has_not_used():
    bundle = Bundle.open(bundles.BLOCKS)
    with open_backend(bundle, "ort", threads=1) as backend:
        assert resident(bundle.file("weights.bin")) == 0
        backend.step([1, 2], [0, 1], [1])
        assert resident(bundle.file("weights.bin")) > 0
