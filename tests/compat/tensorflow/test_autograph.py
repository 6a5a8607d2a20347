"""tf.function over Python's `if`, `while` and `for`: on tensors they become part of the graph."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle.compat.tensorflow as tf
import treadle.compat.tensorflow.compat.v1 as tf1
from treadle.compat.tensorflow.autograph import convert

OFFSET = 10.0


def absolute(x):
    if tf.reduce_sum(x) >= 0:
        return x
    return -x


def graded(x):
    kind = 0.0
    if x > 10:
        y, kind = x * 2, 2.0
    elif x > 5:
        y = x * 3
        part = y - 1
        y = part + 1
    else:
        y = x
    return y + kind


def halved(x, most=100):
    steps = 0
    while x > 1 and steps < most:
        x = x / 2
        steps += 1
    return steps


def summed(n):
    total = tf.constant(0)
    for i in tf.range(n):
        if i % 2 == 0:
            total += i
        else:
            total -= 1
    return total


def rows(x):
    best = x[0]
    for row in x:
        best = tf.maximum(best, row)
    return best


def clipped(x):
    return x if -1.0 < x < 1.0 and not (x == 0 or x != x) else OFFSET


def python_values(x, words=("a", "b"), flag=True):
    found = []
    for word in words:
        if word == "a" and flag:
            found.append(x)
            continue
        found.append(x * 2)
    while len(found) < 3:
        found.append(found[-1])
    return found[0] + found[1] * 10 + found[2] * 100


def nested(x):
    def inner(y):
        if y > 0:
            return y + 1
        return y - 1

    total = x
    for step in range(3):
        if total < OFFSET:
            total = inner(total) + step
    return total


def newton(x):
    guess = x
    while tf.abs(guess * guess - x) > 1e-6 * x:
        guess = (guess + x / guess) / 2
    return guess


CASES: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "if with returns": (absolute, [np.float32([1, 2]), np.float32([-1, -2])]),
    "elif and names of one way": (graded, [np.float32(11), np.float32(7), np.float32(1)]),
    "while": (halved, [np.float32(1), np.float32(1000)]),
    "for over a range with an if": (summed, [np.int32(0), np.int32(7)]),
    "for over rows": (rows, [np.float32([[1, 5], [3, 2], [2, 9]])]),
    "conditional expressions": (clipped, [np.float32(0.5), np.float32(-0.5), np.float32(0), np.float32(3)]),
    "Python values": (python_values, [np.float32(1)]),
    "functions inside": (nested, [np.float32(1), np.float32(-4), np.float32(20)]),
    "loops with floats": (newton, [np.float32(2), np.float32(144)]),
}


@pytest.mark.parametrize("name", CASES)
def test_rewritten_statements_match_python(name: str) -> None:
    """
    A function traced once and run for several values gives what plain Python gives.
    """
    function, values = CASES[name]
    traced = tf.function(function, input_signature=None)
    for value in values:
        wanted = function(tf.constant(value))
        found = traced(tf.constant(value))
        np.testing.assert_allclose(np.asarray(found), np.asarray(wanted), rtol=1e-5)
    assert len({(np.shape(value), str(value.dtype)) for value in values}) == len(traced._traced)


def test_only_the_taken_branch_has_effects() -> None:
    """
    A variable is assigned where Python would assign it, also in a loop.
    """
    v = tf.Variable(0.0)

    @tf.function
    def step(x: Any) -> Any:
        while x > 0:
            if x > 2:
                v.assign_add(x)
            x -= 1
        return x

    assert step(tf.constant(4.0)).numpy() == 0
    assert v.numpy() == 7


def test_graphs_of_sessions_take_traced_functions() -> None:
    """
    Called while a graph is built, the statements become part of it.
    """
    with tf.Graph().as_default(), tf1.Session() as session:
        x = tf1.placeholder(tf.float32, [])
        y = tf.function(graded)(x)
        assert [session.run(y, {x: value}) for value in (11, 7, 1)] == [24, 21, 1]


def test_unsupported_statements_raise() -> None:
    """
    A value that is no tensor, a break out of a `try`, and a plain graph.
    """

    @tf.function
    def no_tensor(x: Any) -> Any:
        kind = list
        if x > 0:
            kind = tuple
        return kind([x])

    @tf.function
    def leaves(x: Any) -> Any:
        while True:
            try:
                if x > 0:
                    break
            finally:
                x += 1
        return x

    one = tf.constant(1.0)
    with pytest.raises(TypeError, match="'kind' is <class 'tuple'> in an `if` over a tensor"):
        no_tensor(one)
    with pytest.raises(tf.errors.OperatorNotAllowedInGraphError, match=r"tf\.cond in place of `if`, tf\.while_loop"):
        leaves(one)
    with pytest.raises(tf.errors.OperatorNotAllowedInGraphError, match=r"tf\.cond"):
        tf.function(absolute, autograph=False)(one)
    with tf.Graph().as_default():
        x = tf1.placeholder(tf.float32, [None])
        with pytest.raises(tf.errors.OperatorNotAllowedInGraphError, match=r"tf\.while_loop"):
            list(x)
        assert len(list(tf1.placeholder(tf.float32, [3]))) == 3


def test_wrapped_functions_and_methods_keep_their_meaning() -> None:
    """
    Decorators below tf.function still work; private names and super() keep their meaning.
    """

    def doubled(function: Any) -> Any:
        @functools.wraps(function)
        def wrapper(x: Any) -> Any:
            return function(x) * 2

        return wrapper

    class Base:
        def scale(self, x: Any) -> Any:
            return x * 3

    class Model(Base):
        __hidden = 5.0

        @tf.function
        def scale(self, x: Any) -> Any:
            return super().scale(x) + self.__hidden

        @tf.function
        def relu(self, x: Any) -> Any:
            if x > 0:
                return self.scale(x)
            return x * 0

    assert tf.function(doubled(graded))(tf.constant(7.0)).numpy() == 42
    model = Model()
    assert model.scale(tf.constant(1.0)).numpy() == 8
    assert model.relu(tf.constant(1.0)).numpy() == 8
    assert model.relu(tf.constant(-1.0)).numpy() == 0


def ordinary(n: int, *args: int, k: int = 3, **more: int) -> Any:
    """Python as it comes: nothing of it is about tensors."""
    out: list[Any] = []
    for i, (a, b) in enumerate(zip(range(n), range(n, 0, -1), strict=True)):
        if a % 2:
            continue
        try:
            if b == 4:
                raise ValueError(b)  # noqa: TRY301
            out.append((i, a, b))
        except ValueError as error:
            out.append(str(error))
        finally:
            out.append("f")
    first, *rest = [1, 2, 3]
    if rest:
        first += 1
        del rest
    while n > 0:
        n -= 1
        if n == 2:
            break
    else:
        out.append("else")
    if (1 < k <= 3 and not args) or more.get("z"):
        word = "yes"
    elif args:
        word = "args"
    late = []
    count = 0
    for i in range(3):
        count += i
        late.append(lambda i=i: i + count)  # noqa: B023 - late binding is the point
    if k > 100:
        return "large"
    made = {j: j * k for j in range(3) if j or k}
    return out, first, n, word, [f() for f in late], made, more


def test_rewriting_does_not_change_plain_python() -> None:
    """
    All kinds of statements, closures that see later assignments, and undefined names.
    """
    rewritten = convert(ordinary)
    assert rewritten is not ordinary
    for args, more in (((5,), {}), ((2, 1), {}), ((4,), {"z": 1, "k": 9}), ((1, 1), {"k": 101})):
        assert rewritten(*args, **more) == ordinary(*args, **more)
    for function in (rewritten, ordinary):
        with pytest.raises(NameError, match="word"):
            function(3, k=9)


def test_tracebacks_name_the_line_of_the_file() -> None:
    """
    An error inside a rewritten statement points at the user's line.
    """

    @tf.function
    def fails(x: Any) -> Any:
        if x > 0:
            return x.no_such_name
        return x

    with pytest.raises(AttributeError) as caught:
        fails(tf.constant(1.0))
    last = caught.traceback[-1]
    assert "return x.no_such_name" in str(last.statement)
    assert last.path.name == "test_autograph.py"


def test_lambdas_are_rewritten() -> None:
    first, second = tf.function(lambda x: x + 1 if x > 0 else x), tf.function(lambda x, *, by=1: -x if x > by else x)
    for value in (-3, 1, 4):
        assert int(first(tf.constant(value))) == (value + 1 if value > 0 else value)
        assert int(second(tf.constant(value))) == (-value if value > 1 else value)
    counted = tf.function(lambda x: halved(x) + 0)
    assert int(counted(tf.constant(16.0))) == halved(16.0) == 4
