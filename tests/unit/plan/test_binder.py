"""Expressions of sizes as operations in an order that the native core computes fast."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import numpy as np
from tests.native_sizes import native_sizes

from treadle.graph.dim import DimExpr
from treadle.graph.facts import Facts
from treadle.plan.binder import Encoder

VALUES = {"batch": 3, "height": 70, "width": 45}


def expressions(count: int) -> tuple[list[DimExpr], list[int], list[int]]:
    """Three symbols, `count` expressions of them, and what these are for VALUES."""
    facts = Facts()
    symbols = [facts.symbol(name, hint) for name, hint in VALUES.items()]
    rng = Random(0)

    def deepened(sizes: list[int], known: list[int]) -> None:
        """Appends one more expression to both lists."""
        a, b = rng.randrange(len(sizes)), rng.randrange(len(sizes))
        number, op = rng.randrange(2, 9), rng.randrange(4)
        for each in (sizes, known):
            x, y = each[a], each[b]
            each.append([(x + y) // number, (x * number + y) // 7, (3 * x + 1) // number * 2, x // number + 5][op])

    sizes, known = list(symbols), list(VALUES.values())
    for _ in range(count):
        deepened(sizes, known)
    return [facts.symbols[name] for name in VALUES], sizes, known


def test_equal_operations_follow_each_other_behind_their_operands() -> None:
    """Operations on slots that are computed before, in a few runs of equal ones; the values are Python's."""
    symbols, sizes, known = expressions(300)
    assert native_sizes(symbols, sizes, list(VALUES.values())) == known

    encoder = Encoder(symbols)
    slots = [encoder.integer(size) for size in sizes]
    done = encoder.finish()
    first = done.symbols + len(done.constants)
    ends = [*done.operations[1:, 1], len(done.operands)]
    for row, ((_, begin), end) in enumerate(zip(done.operations, ends, strict=True)):
        assert (done.operands[begin:end] < first + row).all()
    runs = 1 + sum(one != other for one, other in pairwise(done.operations[:, 0]))
    assert runs < len(done.operations) / 4
    numbers = [encoder.number_of(slot) for slot in slots]
    assert np.unique(numbers).size == len(set(slots))
