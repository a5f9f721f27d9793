"""The memory of a cache."""

import os

import numpy as np
import pytest

from edgeformer.backends.rows import zeros
from edgeformer.errors import EdgeformerError


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_a_cache_takes_memory_for_the_rows_in_use_alone():
    before = resident()
    cache = zeros((64, 4096, 256))  # 268 MB, whole pages a row
    assert cache.nbytes == 4 * 64 * 4096 * 256
    cache[:, :8] = 1
    assert 500e3 < resident() - before < 20e6
    assert not cache[:, 8:12].any() and cache[:, :8].all()


def test_a_cache_is_zero_and_can_be_written_in_any_type_and_shape():
    for dtype in (np.float32, np.float16):
        cache = zeros((2, 3, 5), dtype)
        assert cache.dtype == dtype and cache.shape == (2, 3, 5) and not cache.any()
        cache += 1
        assert cache.all()
    assert zeros((0, 0, 0)).size == 0


@pytest.mark.parametrize("rows", [1 << 50, 1 << 70])
def test_a_cache_that_memory_cannot_hold_is_refused(rows):
    with pytest.raises(
        EdgeformerError, match=f"cache of 2 x {rows} x 64 numbers.*smaller capacity"
    ):
        zeros((2, rows, 64))
