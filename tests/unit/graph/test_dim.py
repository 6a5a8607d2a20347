"""Sizes as expressions: arithmetic against numbers, canonical forms, proofs, guards, pins."""

from __future__ import annotations

import math
import operator
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from treadle.errors import LimitError
from treadle.graph import dim as dims
from treadle.graph.dim import DimExpr, ceil_div, divides, equals, hint_of, is_expression, maximum, minimum
from treadle.graph.facts import Facts
from treadle.graph.guard import evaluate, is_assumed
from treadle.graph.terms import ordered

NAMES = ("batch", "length", "height")

OPS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "add": (operator.add, operator.add),
    "sub": (operator.sub, operator.sub),
    "mul": (operator.mul, operator.mul),
    "floordiv": (operator.floordiv, operator.floordiv),
    "mod": (operator.mod, operator.mod),
    "ceil_div": (ceil_div, lambda a, b: -(-a // b)),
    "minimum": (minimum, min),
    "maximum": (maximum, max),
}
"""(on expressions, on numbers)."""


def sizes() -> tuple[Facts, DimExpr, DimExpr]:
    """Returns the facts, a batch and a length."""
    facts = Facts()
    return facts, facts.symbol("batch", 24), facts.symbol("length", 40)


@pytest.mark.parametrize("seed", range(150))
def test_arithmetic_agrees_with_numbers(seed: int) -> None:
    """Random expressions have the value, the bounds and the comparisons of the numbers, wherever the guards hold."""
    rng = random.Random(seed)
    facts = Facts()
    pool: list[tuple[Any, Callable[[dict[str, int]], int]]] = [
        (facts.symbol(name, rng.randint(1, 40)), lambda values, name=name: values[name]) for name in NAMES
    ]
    pool += [(number, lambda values, number=number: number) for number in (1, 2, 3, 8, 16, 384)]
    checked = 0
    for _ in range(14):
        (a, of_a), (b, of_b) = rng.choice(pool), rng.choice(pool)
        symbolic, plain = OPS[rng.choice(list(OPS))]
        try:
            size = symbolic(a, b)
        except (ZeroDivisionError, LimitError):
            continue

        def value(values: dict[str, int], plain: Any = plain, of_a: Any = of_a, of_b: Any = of_b) -> int:
            return int(plain(of_a(values), of_b(values)))

        if isinstance(size, DimExpr) and len(size.terms) > 30:
            continue
        if isinstance(size, DimExpr):
            assert size.terms == ordered(dict(size.terms))
        pool.append((size, value))
        hints = {name: facts.symbols[name].hint for name in NAMES}
        assert hint_of(size) == evaluate(size, hints)
        other = rng.choice(pool)[0]
        assert (size < other) == (hint_of(size) < hint_of(other))
        assert (size == other) == (hint_of(size) == hint_of(other))
        for _ in range(4):
            values = {name: rng.randint(1, 60) for name in NAMES}
            if not all(is_assumed(guard, values) for guard in facts.guards):
                continue
            try:
                wanted = value(values)
            except ZeroDivisionError:
                continue
            assert evaluate(size, values) == wanted, f"{size} for {values}"
            if isinstance(size, DimExpr):
                assert size.least <= wanted <= size.most
            checked += 1
    assert checked or facts.guards


def test_equal_sizes_are_one_object() -> None:
    """Canonical forms: what is equal by algebra is the same expression or number."""
    _, batch, length = sizes()
    assert batch * length * 384 // (batch * length) == 384
    assert (batch * length) % length == 0
    assert (batch * length) * 12 is (length * 12) * batch
    assert -(-length // 16) is (length + 15) // 16
    assert ceil_div(ceil_div(length, 2), 2) is ceil_div(length, 4)
    assert (batch * length * 3) // (batch * 2) is length * 3 // 2
    assert maximum(length, 1) is length
    assert minimum(length + 3, length) is length
    assert minimum(minimum(length, 9), batch) is minimum(batch, minimum(9, length))
    assert divides(4, batch * 8)
    assert not divides(4, batch)
    assert equals(length + batch, batch + length)
    assert not equals(length, batch)


def test_what_bounds_prove_is_not_assumed() -> None:
    """Sizes are 1 or more: such comparisons need no guard."""
    facts, batch, length = sizes()
    assert 0 not in (batch, length, 3)
    assert batch * length > 0
    assert batch * length >= length
    assert length * 4 != 2
    assert length + 1 > length
    assert -1 not in (batch, length)
    assert bool(length)
    assert facts.guards == []


def test_what_is_assumed_becomes_one_guard() -> None:
    """An unproved comparison follows the samples and is recorded once, in whatever form it is asked."""
    facts, batch, length = sizes()
    assert length >= 16
    assert length * 2 > 31
    assert not length < 16
    assert length >= 3  # follows from length >= 16
    assert [str(guard) for guard in facts.guards] == ["length >= 16"]
    assert batch != length
    assert length != batch
    assert len(facts.guards) == 2
    assert not is_assumed(facts.guards[1], {"batch": 4, "length": 4})
    assert is_assumed(facts.guards[1], {"batch": 4, "length": 5})


def test_guards_prove_what_follows_from_them() -> None:
    """A guard about a quotient is one about what is divided; later expressions know the bounds."""
    facts, batch, length = sizes()
    assert length // 4 >= 8
    assert (length + 7) // 8 >= 4
    assert batch * (length // 2) > 15
    assert length // 8 * batch != 0
    assert minimum(length, 30) == 30
    assert [str(guard) for guard in facts.guards] == ["length >= 32"]


def test_bounds_that_were_asked_for_follow_later_guards() -> None:
    """A guard about one size tightens the bounds of sums that it is part of."""
    _, batch, length = sizes()
    assert is_expression(minimum(batch + length, 33))
    assert length >= 32
    assert type(minimum(batch + length, 33)) is int


def test_a_stronger_guard_replaces_a_weaker_one() -> None:
    """Of the bounds of one sum the last ones remain."""
    facts, batch, length = sizes()
    assert length + batch > 10
    assert length < 100
    assert length + batch > 20
    assert length < 50
    assert length != 49
    assert length < 49
    assert [str(guard) for guard in facts.guards] == ["batch + length >= 21", "length <= 49", "length != 49"]


def test_minima_maxima_and_quotients_are_bounded_by_what_they_are_made_of() -> None:
    """Differences from a part, or from the whole, need no guard."""
    facts, batch, length = sizes()
    assert length >= minimum(length, 5)
    assert maximum(length, batch) >= length
    assert length - (length + 1) // 2 >= 0
    assert length // 2 * 2 <= length
    assert length // 2 * 2 >= length - 1
    assert (2 * length - 1) // length == 1
    assert maximum(0, length - minimum(length, batch)) is length - minimum(length, batch)
    assert facts.guards == []


def test_equality_with_an_extreme_is_an_order() -> None:
    """A size that is the least of two is at most the other one."""
    facts, batch, length = sizes()
    least = minimum(length, 512)
    assert least == length
    assert equals(least, length)
    assert maximum(batch, 16) == batch
    assert [str(guard) for guard in facts.guards] == ["length <= 512", "batch >= 16"]


def test_assumed_sizes_are_equal() -> None:
    """Equality that is a guard already counts as certain."""
    facts, batch, length = sizes()
    past = facts.symbol("past", 16)
    assert not equals(length, past + batch)
    assert length == past + batch
    assert equals(past + batch, length)
    assert equals(length * 2 - past, past + batch * 2)
    assert len(facts.guards) == 1


def test_a_number_pins_the_size() -> None:
    """What needs a number gets the sample, under a guard."""
    facts, _, length = sizes()
    assert len(range(length)) == 40
    assert int(length) == 40
    assert np.array([length, 3], np.int64).tolist() == [40, 3]
    assert [str(guard) for guard in facts.guards] == ["length == 40"]
    assert length > 39  # known now
    assert len(facts.guards) == 1


def test_real_numbers() -> None:
    """Costs are real expressions; rounding makes sizes of them, comparing makes guards."""
    facts, batch, length = sizes()
    cost = batch * length * 2.5 / 20_000.0
    chunks = maximum(math.ceil(cost), 1)
    assert hint_of(cost) == 24 * 40 * 2.5 / 20_000.0
    assert evaluate(chunks, {"batch": 8, "length": 10_000}) == 10
    assert evaluate(round(length / 3), {"length": 8}) == 3
    assert hint_of(dims.real_minimum(cost, 0.01)) == 0.01
    assert facts.guards == []
    assert cost < 1.0
    assert len(facts.guards) == 1
    assert is_assumed(facts.guards[0], {"batch": 1, "length": 8_000}) is False


def test_shared_parts_are_computed_once() -> None:
    """The numbers of expressions that read the one before twice: a call for each, not for each path."""
    facts, _, length = sizes()
    size: Any = length
    for _ in range(30):
        size = facts.call("half", (size, size), 20, 1) + facts.call("half", (size, 2), 20, 1)
    calls: list[tuple[int, ...]] = []

    def half(*args: int) -> int:
        calls.append(args)
        return max(args) // 2

    assert evaluate(size, {"length": 64}, {"half": half}) == 64
    assert len(calls) == 60


def test_text() -> None:
    """Expressions read like formulas."""
    _, batch, length = sizes()
    assert str(batch * length * 2 - length + 3) == "2*batch*length - length + 3"
    assert f"{(length + 15) // 16}" == "(length + 15)//16"
    assert str(minimum(length, 256)) == "min(length, 256)"


def test_long_sums_and_divisions_by_zero_are_refused() -> None:
    """Limits of expressions are errors, not endless work."""
    facts, _, length = sizes()
    total: Any = sum(facts.symbol(f"s{number}", 2) for number in range(17))
    with pytest.raises(LimitError, match="terms"):
        total * total * total
    with pytest.raises(ZeroDivisionError):
        length // 0
    with pytest.raises(ZeroDivisionError, match="sample sizes"):
        length // (length - 40)
