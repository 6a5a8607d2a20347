"""tf.function over loops with `break`, `continue`, `return` and `else`, and over assignments to items."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np
import pytest

import treadle.compat.tensorflow as tf
from treadle.compat.tensorflow.autograph import convert


def odd_sum(n):
    total = 0
    for i in tf.range(n):
        if i % 2 == 0:
            continue
        total += i
    return total


def first_above(rows):
    at = -1
    for row in rows:
        at += 1
        if row > 2.0:
            return row * 10.0, at
    return -1.0, at


def doubled_until(x):
    while x < 100.0:
        x = x * 2.0
        if x > 50.0:
            return x
    else:  # noqa: PLW0120 - the point
        x = x + 0.5
    return x + 1.0


def both_jumps(n):
    i = total = 0
    while True:
        i += 1
        if i > n:
            break
        if i % 3 == 0:
            continue
        total += i
    return total


def nested(n):
    found = 0
    for i in range(n):
        for j in range(n):
            if j > i:
                break
            if (i + j) % 2 == 0:
                continue
            if i * j > 30:
                return found * 100
            found += 1
    return found


def over_a_list(x):
    for value in [1.0, 2.0, 3.0]:
        if x > value:
            continue
        x += value
        if x > 4.0:
            break
    else:
        return x * 0.0
    return x


def only_the_return_ends_it(x):
    while True:
        x = x * 2.0
        if x > 50.0:
            return x


def last_value(n):
    for i in range(n):
        y = i * 2
        if i > 2:
            break
    return y


def in_turn(xs):
    i = 0
    while i < len(xs) and xs[i] < 3.0:
        i += 1
    return i


def in_a_with(x):
    with tf.name_scope("inside"):
        if x > 0.0:
            return x
        x = x - 1.0
    return x * 2.0


def behind_branches_that_may_return(x):
    if x > 8.0:
        x = x - 1.0
    elif x > 5.0:
        return x
    with tf.name_scope("inside"):
        for _ in range(3):
            if x > 1.0:
                break
            x = x + 1.0
    return x * 2.0


def over_nothing(x):
    for i in tf.range(0):
        x += i
    return x


def places(x):
    class Box:
        pass

    box, found = Box(), {"a": x, "n": {"m": x}}
    box.total = x
    if x > 0.0:
        box.total = x * 2.0
        found["a"] = x * 3.0
    else:
        found["n"]["m"] = x * 5.0
    for _ in range(int(x) + 2):
        box.total += 1.0
        if box.total > 6.0:
            break
    return box.total + found["a"] + found["n"]["m"]


CASES: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "continue": (odd_sum, [np.int32(10), np.int32(0)]),
    "return from a for": (first_above, [np.float32([1, 2, 3, 4]), np.float32([0, 1, 0, 0])]),
    "return from a while, else": (doubled_until, [np.float32(1), np.float32(200)]),
    "while True": (both_jumps, [np.int32(10), np.int32(0)]),
    "loops inside loops": (nested, [np.int32(4), np.int32(12)]),
    "a Python list": (over_a_list, [np.float32(1.5), np.float32(0.5), np.float32(5)]),
    "nothing but a return": (only_the_return_ends_it, [np.float32(1)]),
    "a name that only the loop sets": (last_value, [np.int32(10), np.int32(2)]),
    "conditions in turn": (in_turn, [np.float32([1, 2, 9]), np.float32([1, 1, 2])]),
    "return from a with": (in_a_with, [np.float32(1), np.float32(-1)]),
    "behind returns": (behind_branches_that_may_return, [np.float32(9), np.float32(6), np.float32(-1), np.float32(2)]),
    "a range of nothing": (over_nothing, [np.int32(3)]),
    "attributes and items": (places, [np.float32(3), np.float32(-1)]),
}


@pytest.mark.parametrize("name", CASES)
def test_rewritten_jumps_match_python(name: str) -> None:
    """
    A function traced once for each shape gives what plain Python gives; so does the rewritten function with Python
    values.
    """
    function, values = CASES[name]
    traced = tf.function(function)
    for value in values:
        wanted = function(value)
        found = traced(tf.constant(value))
        np.testing.assert_allclose(np.asarray(tf.nest.flatten(found)), np.asarray(tf.nest.flatten(wanted)), rtol=1e-6)
        assert tf.nest.flatten(convert(function)(value)) == tf.nest.flatten(wanted)
    assert len({np.shape(value) for value in values}) == len(traced._traced)


def test_loop_options_allow_a_shape_to_change() -> None:
    """
    Without them a variable that grows raises an error that says how to allow it.
    """

    def grown(n: Any, allowed: bool) -> Any:
        v = tf.zeros([1])
        for _ in tf.range(n):
            if allowed:
                tf.autograph.experimental.set_loop_options(shape_invariants=[(v, tf.TensorShape([None]))])
            v = tf.concat([v, [1.0]], 0)
        return v

    assert tf.function(grown)(tf.constant(3), True).numpy().tolist() == [0, 1, 1, 1]
    with pytest.raises(ValueError, match="shape_invariants"):
        tf.function(grown)(tf.constant(3), False)


def test_both_branches_return_a_value_or_none_does() -> None:
    """
    As in TensorFlow.
    """

    def sometimes(x: Any) -> Any:
        if x > 0.0:
            return x
        return None

    with pytest.raises(ValueError, match="both branches"):
        tf.function(sometimes)(tf.constant(1.0))


def test_a_tensor_cannot_end_a_loop_over_an_endless_iterator() -> None:
    """
    It would be traced forever; the error says what to use. A jump out of a `try` is left to Python.
    """

    def endless(x: Any) -> Any:
        for step in count():
            if x > step:
                break
        return x

    def out_of_a_try(x: Any) -> Any:
        for _ in range(3):
            try:
                if x > 0:
                    break
            finally:
                x += 1
        return x

    def compared_in_a_try(x: Any) -> Any:
        for _ in range(3):
            try:
                if x == 1:
                    break
            finally:
                x += 1
        return x

    with pytest.raises(tf.errors.OperatorNotAllowedInGraphError, match=r"tf\.cond in place of `if`"):
        tf.function(compared_in_a_try)(tf.constant(1.0))
    with pytest.raises(tf.errors.OperatorNotAllowedInGraphError, match=r"use tf\.range or a tensor"):
        tf.function(endless)(tf.constant(1.0))
    with pytest.raises(tf.errors.OperatorNotAllowedInGraphError, match=r"tf\.cond in place of `if`"):
        tf.function(out_of_a_try)(tf.constant(1.0))
    assert convert(out_of_a_try)(1) == out_of_a_try(1)
    assert convert(endless)(3) == 3
