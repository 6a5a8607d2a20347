"""Expressions of sizes: encoded, and computed by the native core."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from tests.native_sizes import native_sizes

from treadle import _native
from treadle.graph.dim import (
    DimExpr,
    floor_int,
    hint_of,
    maximum,
    minimum,
    real_maximum,
    real_minimum,
)
from treadle.graph.facts import Facts
from treadle.graph.guard import evaluate, is_assumed

SHIFT = 1 << 60
"""Added to expressions that may be negative: requested sizes may not."""


def values_of(facts: Facts, symbols: list[Any], expressions: list[Any], values: tuple[int, ...]) -> list[int]:
    """The values of integer expressions as the native core computes them."""
    shifted = [expression + SHIFT for expression in expressions]
    return [size - SHIFT for size in native_sizes(symbols, shifted, values, facts.guards)]


def combine(draw: random.Random, a: Any, b: Any, r: Any) -> Any:
    """An integer expression of integers and a real."""
    number = draw.randint(1, 9)
    makers: list[Callable[[], Any]] = [
        lambda: a + b,
        lambda: a - number * b,
        lambda: minimum(a, 50) * maximum(minimum(b, 9), -9),
        lambda: (a - 7) // number,
        lambda: a % maximum(b, 1),
        lambda: minimum(a, b, number),
        lambda: maximum(a, b - number),
        lambda: floor_int(real_minimum(real_maximum(r, -1e9), 1e9)),
    ]
    return draw.choice(makers)()


def combine_reals(draw: random.Random, a: Any, r: Any, s: Any) -> Any:
    """A real expression of an integer and reals."""
    makers: list[Callable[[], Any]] = [
        lambda: a / 3,
        lambda: a / real_maximum(s, 1.0),
        lambda: r + a * 0.25,
        lambda: real_minimum(r * 0.5, s - 1.5),
        lambda: real_maximum(r, s),
    ]
    return draw.choice(makers)()


def random_expressions(draw: random.Random, symbols: list[Any]) -> list[Any]:
    """Integer expressions that are made of each other by every operation."""
    integers: list[Any] = [*symbols, 3]
    reals: list[Any] = [0.5]
    for _ in range(40):
        a, b = draw.choice(integers), draw.choice(integers)
        r, s = draw.choice(reals), draw.choice(reals)
        if draw.random() < 0.7:
            made = combine(draw, a, b, r)
            if abs(hint_of(made)) < 1 << 40:
                integers.append(made)
        else:
            reals.append(combine_reals(draw, a, r, s))
    return [each for each in integers if isinstance(each, DimExpr)]


@pytest.mark.parametrize("seed", range(40))
def test_expressions_have_the_values_that_python_computes(seed):
    """
    Random expressions of all operations, for random sizes.
    """
    draw = random.Random(seed)
    facts = Facts()
    symbols = [facts.symbol(f"s{i}", 5 + i) for i in range(3)]
    expressions = random_expressions(draw, symbols)
    for _ in range(20):
        values = tuple(draw.choice([1, 2, 7, 31, 200]) for _ in symbols)
        named = {f"s{i}": value for i, value in enumerate(values)}
        wanted = [evaluate(each, named) for each in expressions]
        if any(abs(each) >= SHIFT for each in wanted):
            continue
        if all(is_assumed(guard, named) for guard in facts.guards):
            assert values_of(facts, symbols, expressions, values) == wanted
        else:
            with pytest.raises(_native.BindingFailure):
                values_of(facts, symbols, expressions, values)


def test_a_failing_binding_says_what_failed():
    """
    Overflow, division by zero, and the number of the guard that does not hold.
    """
    facts = Facts()
    a, b = (facts.symbol(name, 5, least=0) for name in "ab")
    quotient = a // maximum(b, 1)
    assert a != 3
    assert not b > 9
    assert values_of(facts, [a, b], [quotient], (7, 2)) == [3]
    for values, number in (((3, 1), 0), ((2, 10), 1)):
        with pytest.raises(_native.BindingFailure, match=f"guard {number} does not hold") as caught:
            values_of(facts, [a, b], [quotient], values)
        assert (caught.value.kind, caught.value.number) == ("guard", number)
    with pytest.raises(_native.BindingFailure, match="overflows") as caught:
        values_of(Facts(), [a, b], [a * b], (1 << 40, 1 << 40))
    assert caught.value.kind == "overflow"
    with pytest.raises(ValueError, match="wanted 2 values, got 1"):
        values_of(Facts(), [a, b], [a], (1,))
