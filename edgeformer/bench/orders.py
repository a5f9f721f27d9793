"""In which order cases take turns, so that none has always the same case before it.

What ran before has had the caches and the CPU: in a fixed order, one of three equal cases looked
5 to 40 % slower.
"""

from typing import List


def balanced(cases: int, least: int = 0) -> List[List[int]]:
    """Rows, each with every case (0, 1, ...) once; at least so many.

    Read one after the other and then from the start again, each case is followed equally often
    by each case, itself among them: inside the rows by each other one (Williams, 1949), and from
    a row to the next by itself, because a row begins with the case that the last one ended with.
    """
    forward = [_row(cases, first, True) for first in range(cases)]
    back = [_row(cases, -first % cases, False) for first in range(cases)]
    period = forward + back if cases > 2 else forward
    return period * max(1, -(-least // len(period)))


def _row(cases: int, first: int, forward: bool) -> List[int]:
    """From `first` to the case after it, or before it: a row of a Williams design, its cases
    renamed so that it ends there."""
    zigzag = [(step + 1) // 2 * (1 if step % 2 else -1) for step in range(cases)]  # 0 1 -1 2 -2 ...
    if cases % 2:  # it ends at (cases + 1) / 2, which doubled is 1
        return [(first + (2 if forward else -2) * step) % cases for step in zigzag]
    half, shift = cases // 2, (first + forward + 1) % 2
    start = (first - shift) % cases
    start = start // 2 + (half if start % 2 else 0)
    return [(_renamed((start + step) % cases, half) + shift) % cases for step in zigzag]


def _renamed(case: int, half: int) -> int:
    """Even numbers for the first half: a zigzag from one ends in the other half."""
    return 2 * case if case < half else 2 * (case - half) + 1
