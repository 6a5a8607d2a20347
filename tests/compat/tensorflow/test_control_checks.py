"""tf.function over statements whose branches or iterations disagree: TensorFlow's errors, raised while tracing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import treadle.compat.tensorflow as tf


def dtypes_of_branches(x):
    if x > 0:  # noqa: SIM108 - the point
        y = 1
    else:
        y = x
    return y


def dtypes_of_returns(x):
    if x > 0:
        return x
    return 1


def dtypes_of_an_expression(x):
    return x if x > 0 else 1


def structures(x):
    if x > 0:  # noqa: SIM108 - the point
        y = {"a": x}
    else:
        y = {"b": x}
    return y


def structures_of_returns(x):
    if x > 0:
        return x, x
    return x


def none_in_main(x):
    if x > 0:  # noqa: SIM108 - the point
        y = None
    else:
        y = x
    return y


def none_in_else(x):
    y = None
    if x > 0:
        y = x
    return y


def none_of_an_expression(x):
    return x if x > 0 else None


def no_return(x):  # noqa: RET503 - the point
    if x > 0:
        pass
    else:
        return x


def dtypes_of_a_loop(x):
    y = 0
    while x > 0:
        y = x
        x -= 1
    return y


def shapes_of_a_loop(x):
    y = tf.zeros([1])
    for _ in tf.range(3):
        y = tf.concat([y, y], 0)
    return y


def ranks_of_a_loop(x):
    y = tf.zeros([1])
    for _ in tf.range(3):
        y = tf.expand_dims(y, 0)
    return y


def structures_of_a_loop(x):
    y = [x]
    for _ in tf.range(3):
        y = [x, x]
    return y


def none_of_a_loop(x):
    y = x
    for _ in tf.range(3):
        y = None
    return y


def number_as_condition(x):
    if x:
        return x
    return -x


def number_as_condition_of_a_loop(x):
    while x:
        x = x - 1
    return x


def several_as_condition(x):
    if tf.stack([x, x]) > 0:
        return x
    return -x


CASES: dict[str, tuple[Callable[..., Any], type[Exception], str]] = {
    "dtypes": (dtypes_of_branches, TypeError, "'y' has dtype int32 in the main branch, but dtype float32 in the else"),
    "dtypes, return": (dtypes_of_returns, TypeError, "'retval_' has dtype float32 in the main branch, but dtype int32"),
    "dtypes, if else": (dtypes_of_an_expression, TypeError, "'x > 0' has dtype float32 in the main branch"),
    "structures": (structures, TypeError, "'y' must have the same nested structure in the main and else branches"),
    "structures, return": (structures_of_returns, TypeError, "'retval_' must have the same nested structure"),
    "None in main": (none_in_main, ValueError, "'y' is None at the end of the main branch"),
    "None in else": (none_in_else, ValueError, "'y' is None at the end of the else branch"),
    "None, if else": (none_of_an_expression, ValueError, "'x > 0' is None at the end of the else branch"),
    "no return": (no_return, ValueError, "the main branch must also have a return statement"),
    "loop, dtypes": (dtypes_of_a_loop, TypeError, "'y' has dtype int32 before the loop, but dtype float32 after one"),
    "loop, shapes": (shapes_of_a_loop, ValueError, r"'y' has shape \(1,\) before the loop, but shape \(2,\) after one"),
    "loop, ranks": (ranks_of_a_loop, ValueError, r"'y' has shape \(1,\) before the loop, but shape \(1, 1\) after one"),
    "loop, structures": (structures_of_a_loop, TypeError, "'y' does not have the same nested structure after one"),
    "loop, None": (none_of_a_loop, ValueError, "'y' is None at the end of the iteration"),
    "number": (number_as_condition, ValueError, "condition of if statement expected to be `tf.bool` scalar.*tf.cast"),
    "number, loop": (number_as_condition_of_a_loop, ValueError, "condition of while loop expected to be `tf.bool`"),
    "several": (several_as_condition, ValueError, r"condition of if statement expected.*shape=\(2,\).*tf.reduce_all"),
}


@pytest.mark.parametrize("name", CASES)
def test_branches_that_disagree_raise_while_tracing(name: str) -> None:
    """
    The errors have TensorFlow's words and name the variable, the file and the function.
    """
    function, kind, fault = CASES[name]
    with pytest.raises(kind, match=rf"test_control_checks\.py, {function.__name__}, line \d+: .*{fault}"):
        tf.function(function).get_concrete_function(tf.TensorSpec([], tf.float32))


def test_a_loop_is_traced_once() -> None:
    """
    Side effects of Python in the body happen once, unless the body defines a name that has no value before the
    loop.
    """
    seen: list[Any] = []

    @tf.function
    def summed(n: Any) -> Any:
        total = 0
        for i in tf.range(n):
            for j in tf.range(i):
                seen.append(j)
                total += j
        return total

    assert summed(tf.constant(4)).numpy() == 4
    assert len(seen) == 1


def test_a_loop_over_tensors_may_return_none() -> None:
    """
    A bare `return` ends the loop; the function returns None.
    """
    found = tf.Variable(0)

    @tf.function
    def first_above(n: Any) -> None:
        for i in tf.range(n):
            if i > 2:
                return
            found.assign_add(i)

    assert first_above(tf.constant(10)) is None
    assert found.numpy() == 3


def in_order(x):
    return sorted(x)


def test_builtins_take_tensors() -> None:
    """
    len() of an axis that only a run knows, sorted() of a vector; lists stay Python's.
    """

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32)])
    def function(x: Any) -> Any:
        words = sorted(["b", "a"])
        return len(x), sorted(x), sorted(x, reverse=True), sorted(x, key=lambda v: -v), len(words[0])

    length, *rows, letters = function(tf.constant([2.0, 3.0, 1.0]))
    assert (length.numpy(), letters.numpy()) == (3, 1)
    assert [row.numpy().tolist() for row in rows] == [[1, 2, 3], [3, 2, 1], [3, 2, 1]]
    with pytest.raises(ValueError, match="only supports only 1D tensors"):
        tf.function(in_order)(tf.zeros([2, 2]))
