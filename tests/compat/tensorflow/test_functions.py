"""tf.function: which arguments share a trace, variables, input signatures; and Python functions as ops."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import treadle.compat.tensorflow as tf


def test_arguments_of_another_structure_are_traced_again() -> None:
    """
    The same leaves in other lists, under other keys, or as keyword arguments.
    """
    traced = tf.function(
        lambda a, b=0: (tf.nest.flatten(a), tf.nest.flatten(b), sorted(a) if isinstance(a, dict) else 0)
    )
    one, two, three = (tf.constant(number) for number in (1, 2, 3))
    assert [len(part) for part in traced([one, two], [three])[:2]] == [2, 1]
    assert [len(part) for part in traced([one], [two, three])[:2]] == [1, 2]
    subtract = tf.function(lambda a, b: a - b)
    assert subtract(one, three).numpy() == -2
    assert subtract(b=one, a=three).numpy() == 2
    assert subtract(one, b=three).numpy() == -2
    assert subtract.experimental_get_tracing_count() == 1
    assert tf.function(lambda d: d.get("x", 5))({"x": one}).numpy() == 1


def test_methods_are_traced_for_each_instance() -> None:
    """
    Instances may be unhashable, and their traces do not keep them alive.
    """
    import gc
    import weakref

    class Scale:
        __hash__ = None  # type: ignore[assignment]

        def __init__(self, by: float) -> None:
            self.by = by
            self.made: Any = None

        @tf.function
        def __call__(self, x: Any) -> Any:
            if self.made is None:
                self.made = tf.Variable(self.by)
            return x * self.made

    twice, thrice = Scale(2.0), Scale(3.0)
    assert [scale(tf.constant(1.0)).numpy() for scale in (twice, thrice, twice)] == [2, 3, 2]
    twice.made.assign(7.0)
    assert twice(tf.constant(1.0)).numpy() == 7
    gone = weakref.ref(thrice)
    del thrice
    gc.collect()
    assert gone() is None


def test_variables_are_created_in_the_first_trace_only() -> None:
    """
    A function that creates a variable in each call raises ValueError.
    """

    @tf.function
    def anew(x: Any) -> Any:
        return x * tf.Variable(2.0)

    with pytest.raises(ValueError, match="singleton"):
        anew(tf.constant(1.0))


def test_an_input_signature_is_traced_once_and_checked() -> None:
    """
    [None] accepts any length; another dtype or rank raises TypeError. A TensorSpec stands for an argument.
    """
    total = tf.function(lambda x: tf.reduce_sum(x) * 1, input_signature=[tf.TensorSpec([None], tf.float32)])
    assert [total(tf.ones([n])).numpy() for n in (1, 3)] == [1, 3]
    assert total([1.0, 2.0]).numpy() == 3
    assert total.experimental_get_tracing_count() == 1
    for wrong in (tf.constant([1]), tf.ones([2, 2])):
        with pytest.raises(TypeError, match="Binding inputs"):
            total(wrong)
    doubled = tf.function(lambda x: {"y": x * 2}).get_concrete_function(tf.TensorSpec([None], tf.int32))
    assert doubled(tf.constant([1, 2]))["y"].numpy().tolist() == [2, 4]
    assert doubled.structured_outputs["y"].shape.as_list() == [None]
    assert [t.dtype for t in doubled.inputs] == [tf.int32]


def test_functions_can_run_as_plain_python() -> None:
    """
    tf.config.run_functions_eagerly: every call runs the Python again.
    """
    seen = []
    traced = tf.function(lambda x: seen.append(1) or x)
    tf.config.run_functions_eagerly(True)
    try:
        for _ in range(3):
            traced(tf.constant(1))
    finally:
        tf.config.run_functions_eagerly(False)
    assert len(seen) == 3


def test_random_ops_in_functions_continue_from_call_to_call() -> None:
    """
    set_seed restarts all generators; an op with a seed of its own continues at its next call.
    """

    def drawn() -> list[Any]:
        tf.random.set_seed(3)
        traced = tf.function(lambda: tf.random.normal([2]))
        found = [tf.random.normal([2], seed=1), tf.random.normal([2], seed=1), tf.random.normal([2]), traced()]
        return [each.numpy().tolist() for each in found]

    first, second = drawn(), drawn()
    assert first == second
    assert len({str(each) for each in first}) == 4


KINDS: dict[type[Exception], type[Exception]] = {
    ValueError: tf.errors.InvalidArgumentError,
    TypeError: tf.errors.InvalidArgumentError,
    NotImplementedError: tf.errors.UnimplementedError,
    MemoryError: tf.errors.ResourceExhaustedError,
    ZeroDivisionError: tf.errors.UnknownError,
}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("mode", ["eager", "graph", "function"])
def test_errors_of_python_functions_become_tensorflow_errors(kind: type[Exception], mode: str) -> None:
    """
    Eagerly, in a session and in a tf.function; the exception is the cause.
    """

    def fails(x: Any) -> Any:
        raise kind("why")

    def call() -> Any:
        return tf.py_function(fails, [tf.constant(1)], tf.int32)

    run = {"eager": call, "function": tf.function(call), "graph": lambda: tf.Session().run(call())}[mode]
    with (
        tf.Graph().as_default() if mode == "graph" else nullcontext(),
        pytest.raises(KINDS[kind], match="why") as caught,
    ):
        run()
    assert isinstance(caught.value.__cause__, kind)


def test_py_function_is_a_decorator_and_takes_tensor_specs() -> None:
    """
    As in TensorFlow: Tout alone, and a TensorSpec in place of a dtype.
    """

    @tf.py_function(Tout=tf.int32)
    def more(x: Any) -> Any:
        return x + 1

    @tf.numpy_function(Tout=[tf.float32, tf.string])
    def both(x: Any) -> Any:
        return x * 2, "text"

    assert more(tf.constant(1)).numpy() == 2
    assert [np.asarray(part).tolist() for part in both(np.float32([1]))] == [[2], b"text"]
    with tf.Graph().as_default():
        stated = tf.py_function(lambda x: x, [tf.constant([1.0])], tf.TensorSpec([1], tf.float32))
        assert stated.shape.as_list() == [1]
    with pytest.raises(TypeError, match="Tout"):
        tf.numpy_function(lambda x: x, [1])


def test_signatures_distinguish_negative_zero_and_unify_nan() -> None:
    function = tf.function(lambda a, k: a * k)
    one = tf.constant(1.0)
    assert [np.signbit(function(one, k).numpy()) for k in (0.0, -0.0, 0.0)] == [False, True, False]
    before = function.experimental_get_tracing_count()
    assert all(np.isnan(function(one, float("nan")).numpy()) for _ in range(3))
    assert function.experimental_get_tracing_count() == before + 1
