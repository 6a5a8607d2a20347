"""Bodies of the facade of TensorFlow: tf.cond, tf.while_loop, AutoGraph, map_fn, and such with Python steps inside."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import treadle.compat.tensorflow as tf
import treadle.compat.tensorflow.compat.v1 as tf1
from tests.bodies.kinds import OTHER, SIZE, STEP, WIDE, Array, Kind, Run, as_task, given, products, transposes, weights

Function = Callable[..., Any]
"""(x, n, once, yes) -> x."""


def product(x: Any) -> Any:
    return tf.tanh(tf.matmul(x, weights(), name=STEP))


def loop(inner: Function | None, step: Callable[[Any], Any] = product) -> Function:
    """A while_loop around `inner`; without it, of `step`."""

    def function(x: Any, n: Any, once: Any, yes: Any) -> Any:
        limit = n if inner is None else once
        body = step if inner is None else lambda x: inner(x, n, once, yes)
        return tf.while_loop(lambda i, _: i < limit, lambda i, x: (i + 1, body(x)), (tf.constant(0), x))[1]

    return function


def kept(x: Any) -> Any:
    return tf.boolean_mask(x, tf.reduce_sum(x, 1) < 1e30)


def loop_that_finds(inner: Function | None) -> Function:
    """A while_loop whose body finds sizes."""

    def function(x: Any, n: Any, once: Any, yes: Any) -> Any:
        limit = n if inner is None else once
        body = product if inner is None else lambda x: inner(x, n, once, yes)
        return tf.while_loop(
            lambda i, _: i < limit,
            lambda i, x: (i + 1, body(kept(x))),
            (tf.constant(0), x),
            shape_invariants=(tf.TensorShape([]), tf.TensorShape([None, SIZE])),
        )[1]

    return function


def turning(inner: Function | None) -> Function:
    def function(x: Any, n: Any, once: Any, yes: Any) -> Any:
        limit = n if inner is None else once

        def body(x: Any) -> Any:
            return tf.tanh(1.5 * tf.transpose(x), name=STEP) if inner is None else tf.transpose(inner(x, n, once, yes))

        return tf.while_loop(
            lambda i, _: i < limit,
            lambda i, x: (i + 1, body(x)),
            (tf.constant(0), x),
            shape_invariants=(tf.TensorShape([]), tf.TensorShape([None, None])),
        )[1]

    return function


def statements(inner: Function | None) -> Function:
    """A statement `while`, which AutoGraph converts."""
    if inner is None:

        def innermost(x: Any, n: Any, once: Any, yes: Any) -> Any:
            i = tf.constant(0)
            while i < n:
                x = product(x)
                i += 1
            return x

        return innermost

    def function(x: Any, n: Any, once: Any, yes: Any) -> Any:
        i = tf.constant(0)
        while i < once:
            x = inner(x, n, once, yes)
            i += 1
        return x

    return function


def branch(inner: Function) -> Function:
    def function(x: Any, n: Any, once: Any, yes: Any) -> Any:
        return tf.cond(yes, lambda: inner(x, n, once, yes), lambda: tf.negative(x, name=OTHER))

    return function


def branch_of_sizes(inner: Function) -> Function:
    def function(x: Any, n: Any, once: Any, yes: Any) -> Any:
        return tf.cond(yes, lambda: inner(kept(x), n, once, yes), lambda: tf.concat([x, x], 0, name=OTHER))

    return function


def mapped(inner: Function) -> Function:
    def function(x: Any, n: Any, once: Any, yes: Any) -> Any:
        return tf.map_fn(lambda item: inner(item, n, once, yes), x[None])[0]

    return function


def in_python(x: Any) -> Any:
    """A step that Python computes."""
    found = tf.numpy_function(lambda x: np.tanh(x @ weights()), [x], tf.float32, name=STEP)
    found.set_shape([SIZE, SIZE])
    return found


Wrap = Callable[[Any], Function]


def nested(wrap: Wrap, innermost: Function, depth: int, own: int) -> Function:
    function = innermost
    for _ in range(depth - own):
        function = wrap(function)
    return function


def program(wrap: Wrap, innermost: Function, depth: int, *, own: int = 1, rows: int = SIZE) -> Run:
    """Returns a tf.function."""
    function = tf.function(nested(wrap, innermost, depth, own))

    def call(count: int) -> Array:
        limit = tf.constant(min(count, np.iinfo(np.int32).max))
        found: Array = function(tf.constant(given()[:rows]), limit, tf.constant(1), tf.constant(True)).numpy()
        return found

    return as_task(call)


def graph_mode(wrap: Wrap, innermost: Function, depth: int, *, own: int = 1) -> Run:
    """Returns a graph that a session runs."""
    with tf.Graph().as_default() as graph:
        places = [
            tf1.placeholder(dtype, [SIZE, SIZE] if dtype == tf.float32 else [])
            for dtype in (tf.float32, tf.int32, tf.int32, tf.bool)
        ]
        y = nested(wrap, innermost, depth, own)(*places)
    session = tf1.Session(graph=graph)

    def call(count: int) -> Array:
        values = (given(), min(count, np.iinfo(np.int32).max), 1, True)
        found: Array = session.run(y, dict(zip(places, values, strict=True)))
        return found

    return as_task(call)


def kind(wrap: Wrap, own: int = 1, innermost: Function | None = None, **options: Any) -> Kind:
    first = innermost or loop(None)
    make = options.pop("make", program)
    expected = options.pop("expected", products)
    return Kind(partial(make, wrap, first, own=own, **options), expected, gives_way=False)


KINDS = {
    "tf.while_loop": kind(loop),
    "tf.while_loop that finds sizes": kind(loop_that_finds, innermost=loop_that_finds(None)),
    "tf.while_loop whose variable changes its shape": kind(
        turning, innermost=turning(None), expected=transposes, rows=WIDE[0]
    ),
    "tf.while_loop with Python inside": kind(loop, innermost=loop(None, in_python)),
    "tf.while_loop in graph mode": kind(loop, make=graph_mode),
    "AutoGraph while": kind(statements, innermost=statements(None)),
    "tf.cond": kind(branch, own=0),
    "tf.cond in graph mode": kind(branch, own=0, make=graph_mode),
    "tf.cond whose sides find sizes": kind(branch_of_sizes, own=0),
    "tf.map_fn": kind(mapped, own=0),
}
