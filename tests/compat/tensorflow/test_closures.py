"""Inner functions that read names which `if`, `while` and `for` over tensors assign: they see what Python's would.

TensorFlow 2.21 gives the same results, except that it refuses `reads_the_target` and misses iterations of
`in_an_inner_loop`.
"""

# ruff: noqa: B007, B023, E731, SIM108 - that inner functions read what a loop assigns is the point

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import treadle.compat.tensorflow as tf


def before_a_while(n: Any, _: Any) -> Any:
    i = n * 0
    s = n * 0
    step = lambda: s + 1
    while i < n:
        s = step()
        i += 1
    return s


def two_names(n: Any, _: Any) -> Any:
    i = n * 0
    s = n * 0

    def step() -> Any:
        return s + i

    while i < n:
        s = step()
        i += 1
    return s, step()


def inside_a_while(n: Any, _: Any) -> Any:
    i = n * 0
    s = n * 0
    while i < n:
        step = lambda: s * 2 + i
        s = step()
        i += 1
    return s


def before_a_for(n: Any, numbers: Callable[[Any], Any]) -> Any:
    s = n * 0
    step = lambda: s * 2 + 1
    for _ in numbers(n):
        s = step()
    return s


def reads_the_target(n: Any, numbers: Callable[[Any], Any]) -> Any:
    total = n * 0
    twice = lambda: i * 2
    for i in numbers(n):
        total += twice()
    return total


def in_a_test(n: Any, _: Any) -> Any:
    i = n * 0
    goes_on = lambda: i < n
    while goes_on():
        i += 1
    return i


def in_branches(n: Any, _: Any) -> Any:
    s = n * 0 + 1
    more = lambda: s + 1
    if n > 2:
        s = n * 10
        s = more()
    else:
        s = more() * 7
    return s, more()


def in_a_branch_of_a_loop(n: Any, _: Any) -> Any:
    i = n * 0
    s = n * 0
    add = lambda by: s + by + i
    while i < n:
        if i % 2 == 0:
            s = add(3)
        else:
            s = add(-1)
        i += 1
    return s


def in_an_inner_loop(n: Any, _: Any) -> Any:
    i = n * 0
    j = n * 0
    s = n * 0
    product = lambda: s + i * j
    while i < n:
        j = n * 0
        while j < i:
            s = product()
            j += 1
        i += 1
    return s


def with_a_break(n: Any, _: Any) -> Any:
    i = n * 0
    far = lambda: i * i > 5
    while i < n:
        if far():
            break
        i += 1
    return i


def returns_from_a_branch(n: Any, _: Any) -> Any:
    if n > 2:
        s = n + 1
        f = lambda: s * 2
        s = n + 5
        return f()
    s = n - 1
    f = lambda: s * 3
    return f()


def a_parameter(n: Any, _: Any) -> Any:
    half = lambda: n // 2
    while n > 1:
        n = half()
    return n


def a_generator(n: Any, _: Any) -> Any:
    i = n * 0
    s = n * 0
    while i < n:
        s = s + sum(i * k for k in range(3))
        i += 1
    return s


def two_deep(n: Any, _: Any) -> Any:
    i = n * 0

    def outer() -> Any:
        def inner() -> Any:
            return i * 3

        return inner() + 1

    s = n * 0
    while i < n:
        s = s + outer()
        i += 1
    return s


PROGRAMS = (
    before_a_while, two_names, inside_a_while, before_a_for, reads_the_target, in_a_test, in_branches,
    in_a_branch_of_a_loop, in_an_inner_loop, with_a_break, returns_from_a_branch, a_parameter, a_generator, two_deep,
)  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
@pytest.mark.parametrize("n", [1, 2, 4, 7])
def test_inner_functions_see_the_iteration_that_calls_them(program: Callable[..., Any], n: int) -> None:
    found = tf.function(program)(tf.constant(n), tf.range)
    assert tf.nest.map_structure(int, found) == program(n, range)
