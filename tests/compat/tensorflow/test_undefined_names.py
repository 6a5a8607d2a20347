"""tf.function over names that only some branches define: TensorFlow's errors, raised while tracing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle.compat.tensorflow as tf

Case = tuple[Callable[..., Any], str]


def without_else(x):
    if x > 0:
        y = x
    return y


def only_main(x):
    if x > 0:
        y = x
    else:
        z = x
    return y + 0 * z


def only_else(x):
    if x > 0:
        pass
    else:
        y = x
    return y


def elif_chain(x):
    if x > 0:
        y = x
    elif x > -1:
        y = x * 2
    return y


def nested_ifs(x):
    if x > 0:
        if x > 1:
            y = x
    else:
        y = x
    return y


def deleted(x):
    y = x
    if x > 0:
        del y
    return y


def read_by_the_next_if(x):
    if x > 0:
        y = x
    if x > 0:
        x = y
    return x


def before_a_branch_that_returns(x):
    if x > 0:
        y = x
    if x > 5:
        return x
    return y


def beside_a_branch_that_returns(x):
    if x > 0:
        y = x
    elif x > -5:
        return x
    return y


def read_by_a_function_made_before(x):
    def inner():
        return y

    if x > 0:
        y = x
    return inner()


def read_by_a_lambda(x):
    if x > 0:
        y = x
    return (lambda: y)()  # noqa: PLC3002 - the point


def inside_a_try(x):
    try:
        if x > 0:
            y = x
    finally:
        x = x + 1
    return y


def read_where_an_exception_is_caught(x):
    try:
        if x > 0:
            y = x
        raise KeyError  # noqa: TRY301 - the point
    except KeyError:
        return y


def in_a_python_loop(x):
    for _ in range(2):
        if x > 0:
            y = x
    return y


def an_attribute(x):
    class Box:
        pass

    box = Box()
    if x > 0:
        box.value = x
    return box.value


def an_item(x):
    found = {}
    if x > 0:
        found["k"] = x * 2
    else:
        x = x + 1
    return found["k"]


def helper(x):
    return without_else(x)


IFS: dict[str, Case] = {
    "no else": (without_else, "'y' must also be initialized in the else branch"),
    "two names": (only_main, "'y' must also be initialized in the else branch|'z' .* in the main branch"),
    "only the else branch": (only_else, "'y' must also be initialized in the main branch"),
    "elif": (elif_chain, "'y' must also be initialized in the else branch"),
    "ifs inside ifs": (nested_ifs, "'y' must also be initialized in the else branch"),
    "del": (deleted, "'y' must also be initialized in the main branch"),
    "the next if": (read_by_the_next_if, "'y' must also be initialized in the else branch"),
    "a later return": (before_a_branch_that_returns, "'y' must also be initialized in the else branch"),
    "a return beside it": (beside_a_branch_that_returns, "'y' must also be initialized in the else branch"),
    "a function made before": (read_by_a_function_made_before, "'y' must also be initialized in the else branch"),
    "a lambda": (read_by_a_lambda, "'y' must also be initialized in the else branch"),
    "try": (inside_a_try, "'y' must also be initialized in the else branch"),
    "except": (read_where_an_exception_is_caught, "'y' must also be initialized in the else branch"),
    "a Python loop": (in_a_python_loop, "'y' must also be initialized in the else branch"),
    "an attribute": (an_attribute, r"'box\.value' must also be initialized in the else branch"),
    "an item": (an_item, r"'found\['k'\]' must also be initialized in the else branch"),
    "a function that it calls": (helper, "without_else, line .*'y' must also be initialized in the else branch"),
}


@pytest.mark.parametrize("name", IFS)
def test_a_name_undefined_after_one_branch_raises_while_tracing(name: str) -> None:
    """
    A ValueError names the variable and the branch, whatever the condition will be.
    """
    function, fault = IFS[name]
    with pytest.raises(ValueError, match=fault):
        tf.function(function).get_concrete_function(tf.TensorSpec([], tf.float32))


def test_the_error_says_where_the_statement_is() -> None:
    """
    File, function and line of the `if`.
    """
    line = without_else.__code__.co_firstlineno + 1
    with pytest.raises(ValueError, match=rf"test_undefined_names\.py, without_else, line {line}: 'y'"):
        tf.function(without_else)(tf.constant(1.0))


def step_reads_it_first(x):
    while x > 0:
        x = x - y  # noqa: F821 - the point
        y = x  # noqa: F841 - the point
    return x


def in_an_if_of_a_for(x):
    for i in tf.range(3):
        if i > 0:
            y = x
    return y


def in_an_if_of_a_while(x):
    while x > 0:
        if x > 1:
            y = x
        x -= 1
    return y


def no_tensor(x):
    for _ in tf.range(3):
        y = object()
        x += 1
    return x, y


def behind_a_break(x):
    for i in tf.range(3):
        if x > 5:
            break
        y = i
    return y


LOOPS: dict[str, Case] = {
    "read by the step": (step_reads_it_first, "'y' must be defined before the loop.*UnboundLocalError"),
    "an if in a for": (in_an_if_of_a_for, "'y' must be defined before the loop.*'y' must also be initialized"),
    "an if in a while": (in_an_if_of_a_while, "'y' must be defined before the loop"),
    "no tensor": (no_tensor, "'y' must be defined before the loop.*object"),
    "break": (behind_a_break, "'y' must be defined before the loop"),
}


@pytest.mark.parametrize("name", LOOPS)
def test_a_name_that_a_loop_cannot_define_raises_while_tracing(name: str) -> None:
    """
    A ValueError names it and says why the loop cannot give it an initial value.
    """
    function, fault = LOOPS[name]
    with pytest.raises(ValueError, match=fault):
        tf.function(function).get_concrete_function(tf.TensorSpec([], tf.float32))


def of_a_for(n):
    for i in tf.range(n):
        y = i * 2
    return y


def of_a_while(n):
    while n > 0:
        y = n * 2
        n -= 1
    return y


def of_loops_inside_loops(n):
    for i in tf.range(n):
        for j in tf.range(n):
            y = [i, j]
    return y


def none_before(n):
    y = None
    for i in tf.range(n):
        y = i
    return y


@pytest.mark.parametrize(
    ("function", "last"), [(of_a_for, 4), (of_a_while, 2), (of_loops_inside_loops, [2, 2]), (none_before, 2)]
)
def test_a_name_that_only_a_loop_defines_needs_an_iteration(function: Callable[..., Any], last: Any) -> None:
    """
    A run without iterations raises InvalidArgumentError, since Python would have no value either.
    """
    traced = tf.function(function)
    np.testing.assert_array_equal(np.asarray(tf.nest.flatten(traced(tf.constant(3)))), np.ravel(last))
    with pytest.raises(tf.errors.InvalidArgumentError, match="loop must iterate at least once to initialize y"):
        traced(tf.constant(0))


def test_the_target_of_a_range_starts_with_its_first_number() -> None:
    """
    As in TensorFlow, also without iterations.
    """

    @tf.function
    def last(n: Any) -> Any:
        for i in tf.range(5, n):
            n += i
        return i

    assert [last(tf.constant(n)).numpy() for n in (8, 5, 2)] == [7, 5, 5]


def never_read(x):
    if x > 0:
        y = x  # noqa: F841 - the point
    return x


def set_anew(x):
    if x > 0:
        y = x
    y = x * 3
    return y  # noqa: RET504 - the point


def read_in_the_branch_alone(x):
    if x > 0:
        y = x
        x = y + 1
    return x


def of_another_kind_in_each_branch(x):
    if x > 0:  # noqa: SIM108 - the point
        y = "text"
    else:
        y = [x, None]  # noqa: F841 - the point
    return x


def deleted_and_not_read(x):
    y = x
    if x > 0:
        del y
    return x


def local_to_a_loop(x):
    for _ in tf.range(3):
        part = tf.ones([2])
        x += tf.reduce_sum(part)
    for _ in tf.range(3):
        part = "text"
        x += 1
    return x


def of_a_comprehension_of_the_same_name(x):
    if x > 0:
        y = x
        x += y
    return tf.add_n([x * y for y in [1.0, 2.0]])


def in_both_branches(x):
    if x > 0:
        found = {"k": x}
    elif x > -5:
        found = {"k": -x}
    else:
        raise ValueError
    return found["k"]


def returned_where_it_is_missing(x):
    if x > 0:
        y = x
    else:
        return -x
    return y


ACCEPTED: dict[str, tuple[Callable[..., Any], list[float]]] = {
    "never read": (never_read, [2.0, -2.0]),
    "set anew": (set_anew, [2.0, -2.0]),
    "read in the branch": (read_in_the_branch_alone, [2.0, -2.0]),
    "other kinds": (of_another_kind_in_each_branch, [2.0, -2.0]),
    "deleted": (deleted_and_not_read, [2.0, -2.0]),
    "local to a loop": (local_to_a_loop, [2.0]),
    "a comprehension": (of_a_comprehension_of_the_same_name, [2.0, -2.0]),
    "a way that returns": (returned_where_it_is_missing, [2.0, -2.0]),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_names_that_are_not_live_may_be_undefined(name: str) -> None:
    """
    They are local to the statement; the result is Python's.
    """
    function, values = ACCEPTED[name]
    traced = tf.function(function)
    for value in values:
        np.testing.assert_allclose(np.asarray(traced(tf.constant(value))), np.asarray(function(tf.constant(value))))


def test_a_branch_that_raises_is_traced_too() -> None:
    """
    As in TensorFlow it raises while tracing, and is not mistaken for an undefined name.
    """
    with pytest.raises(ValueError, match=r"^$"):
        tf.function(in_both_branches)(tf.constant(1.0))


def test_python_conditions_keep_the_names_of_python() -> None:
    """
    Without tensors, reading an undefined name is an UnboundLocalError.
    """

    @tf.function
    def function(x: Any, flag: bool) -> Any:
        if flag:
            y = x
        return y

    assert function(tf.constant(1.0), True).numpy() == 1
    with pytest.raises(UnboundLocalError, match="'y'"):
        function(tf.constant(1.0), False)
