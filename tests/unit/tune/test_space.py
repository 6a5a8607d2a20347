"""The limits that tuning measures."""

from __future__ import annotations

import pytest

from treadle.tune.space import counts, grid


@pytest.mark.parametrize(
    ("budget", "tried"),
    [(1, [1]), (2, [1, 2]), (3, [1, 2, 3]), (4, [1, 2, 3, 4]), (6, [1, 2, 4, 6]), (8, [1, 2, 4, 8])],
)
def test_few_cpus_are_measured_by_every_number_and_many_by_powers_of_two(budget: int, tried: list[int]) -> None:
    """
    The largest number is always that of all CPUs.
    """
    assert counts(budget) == tried


def test_both_limits_at_all_cpus_come_last() -> None:
    """
    That is the automatic setting. The first is one thread for everything.
    """
    assert grid(2) == [(1, 1), (1, 2), (2, 1), (2, 2)]
    assert len(grid(64)) == 49
