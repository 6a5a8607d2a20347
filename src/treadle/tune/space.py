"""The limits that are tried: every (intra_op, inter_op) that the CPUs available allow."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

FEW = 4
"""Up to so many CPUs every number is tried; beyond, the powers of two, and all CPUs."""


class Limits(NamedTuple):
    """Limits of a run, as `Session.run` takes them."""

    intra_op: int
    inter_op: int


def counts(budget: int) -> list[int]:
    """The numbers of threads to try where `budget` CPUs are available, ascending."""
    if budget <= FEW:
        return list(range(1, budget + 1))
    return sorted({budget, *(1 << bit for bit in range(budget.bit_length()))})


def grid(budget: int) -> list[Limits]:
    """All pairs of counts(budget). The last is what automatic means: both the CPUs available."""
    return [Limits(*pair) for pair in product(counts(budget), repeat=2)]
