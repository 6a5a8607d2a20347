"""What is known of the shapes of tensors while a graph is built."""

from __future__ import annotations

from typing import Any

import pytest

import treadle.compat.tensorflow as tf
from tests.compat.tensorflow.shape_cases import DIFFERENCES, MISFITS, SHAPES, Build
from treadle.compat.tensorflow.table import OPS
from treadle.frontends.tensorflow.table import MATH


def described(framework: Any, build: Build) -> str:
    """The dtype and static shape of what `build` makes."""
    with framework.Graph().as_default():
        made = build(framework, lambda shape, dtype="float32": framework.compat.v1.placeholder(dtype, shape))
    shape = "of any rank" if made.shape.rank is None else made.shape.as_list()
    return f"{made.dtype.name} {shape}"


@pytest.mark.parametrize("name", SHAPES)
def test_static_shapes_are_those_of_tensorflow(name: str) -> None:
    """Unknown sizes stay unknown, and what follows from known ones is known."""
    build, wanted = SHAPES[name]
    assert described(tf, build) == wanted


@pytest.mark.parametrize("name", DIFFERENCES)
def test_other_static_shapes_are_compatible_with_those_of_tensorflow(name: str) -> None:
    build, _, wanted = DIFFERENCES[name]
    assert described(tf, build) == wanted


@pytest.mark.parametrize("name", MISFITS)
def test_operands_that_never_fit_raise_while_the_graph_is_built(name: str) -> None:
    """Open sizes are not an excuse; the error is of the class that TensorFlow raises."""
    build, kind = MISFITS[name]
    with pytest.raises(kind):
        described(tf, build)


@pytest.mark.parametrize("name", [*SHAPES, *DIFFERENCES])
def test_the_table_is_what_the_installed_tensorflow_says(name: str) -> None:
    framework = pytest.importorskip("tensorflow", reason="TensorFlow is not installed")
    build, said, *_ = (SHAPES | DIFFERENCES)[name]
    assert described(framework, build) == said


@pytest.mark.parametrize("name", MISFITS)
def test_the_installed_tensorflow_raises_the_same_classes(name: str) -> None:
    framework = pytest.importorskip("tensorflow", reason="TensorFlow is not installed")
    build, kind = MISFITS[name]
    with pytest.raises(kind):
        described(framework, build)


def test_errors_name_the_operation_and_what_certainly_does_not_fit() -> None:
    """Not a size that would fit in another case."""
    with tf.Graph().as_default(), pytest.raises(ValueError, match=r"^part: slice: axis 1 of size 3 has no 2 elements"):
        tf.slice(tf.compat.v1.placeholder(tf.float32, [None, 3]), [0, 2], [1, 2], name="part")


def test_the_value_of_a_tensor_is_known_if_no_size_is_open() -> None:
    with tf.Graph().as_default():
        x = tf.compat.v1.placeholder(tf.float32, [None, 3])
        assert tf.get_static_value(tf.shape(x)[1] * 2) == 6
        assert tf.get_static_value(tf.shape(x)) is None


def test_set_shape_keeps_what_is_known() -> None:
    """Sizes that it declares replace unknown ones, for later operations too."""
    with tf.Graph().as_default():
        x = tf.compat.v1.placeholder(tf.float32, [None, None, 3])
        x.set_shape([None, 5, None])
        assert x.shape.as_list() == [None, 5, 3]
        assert tf.reshape(x, [-1, 15]).shape.as_list() == [None, 15]
        y = tf.compat.v1.placeholder(tf.int32, None)
        y.set_shape([2])
        assert tf.zeros(y).shape.as_list() == [None, None]


def test_a_size_that_is_used_twice_is_one_size() -> None:
    """Reshaping to a batch and back gives the batch, which adds to the first without a doubt."""
    with tf.Graph().as_default():
        x = tf.compat.v1.placeholder(tf.float32, [None] * 7)
        flat = tf.reshape(x, [-1])
        back = tf.reshape(flat, tf.shape(x))
        assert (x + back).shape.as_list() == [None] * 7
        with pytest.raises(ValueError, match="Cannot infer"):
            tf.unstack(flat)


MATH_OPERANDS = {"logical_and": "bool", "logical_not": "bool", "logical_or": "bool", "logical_xor": "bool"}
"""Operands of elementwise ops that do not take float32."""


def elementwise(name: str) -> Build:
    """The op of one or two operands."""
    count = sum(kind is not None for kind, _ in OPS[name]._kinds.values())
    dtype = MATH_OPERANDS.get(name, "float32")
    return lambda tf, u: OPS[name](*(u([None, 3], dtype) for _ in range(count)))


@pytest.mark.parametrize(
    "build",
    [build for build, *_ in (SHAPES | DIFFERENCES).values()]
    + [elementwise(rule.name) for rule in MATH if set(OPS[rule.name]._kinds) <= {"x", "y"}],
)
def test_stated_element_types_are_those_that_are_inferred(build: Build) -> None:
    """The table of ops states them for results of which nothing can be inferred."""
    with tf.Graph().as_default() as graph:
        build(tf, lambda shape, dtype="float32": tf.compat.v1.placeholder(dtype, shape))
    calls = [op for op in graph.get_operations() if op.call is not None]

    for op in calls:
        name, plan = op.call
        if name not in ("split", "unstack"):
            assert list(OPS[name].result_types(plan, op.inputs)) == [tensor.dtype.core for tensor in op.outputs]


def test_the_number_of_parts_must_be_known() -> None:
    with tf.Graph().as_default():
        x = tf.compat.v1.placeholder(tf.int32, None)
        assert [part.dtype for part in tf.split(x, 3)] == ["int32"] * 3
        assert [part.dtype for part in tf.split(x, tf.compat.v1.placeholder(tf.int32, None), num=2)] == ["int32"] * 2
        with pytest.raises(ValueError, match="Cannot infer argument `num`"):
            tf.unstack(x)
