"""The limits that tuning measures: every (intra_op, inter_op) that the available CPUs allow."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

FEW = 4
"""The largest number of CPUs at which every number is measured; above it, powers of two and the number of CPUs."""


class Limits(NamedTuple):
    """The limits of a run, arguments of `Session.run`."""

    intra_op: int
    inter_op: int


def counts(budget: int) -> list[int]:
    """Returns the numbers of threads to measure if `budget` CPUs are available, ascending."""
    if budget <= FEW:
        return list(range(1, budget + 1))
    return sorted({budget, *(1 << bit for bit in range(budget.bit_length()))})


def grid(budget: int) -> list[Limits]:
    """Returns all pairs of counts(budget). The last is the automatic setting: both are the available CPUs."""
    return [Limits(*pair) for pair in product(counts(budget), repeat=2)]
