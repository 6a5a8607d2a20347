"""Lowering of graphs with open sizes: which calls are made, and that they serve many sizes."""

import numpy as np
import pytest
from tests.open_sizes import OpenSizes

from treadle import dtypes
from treadle.graph.graph import Graph
from treadle.graph.value import Value

OPEN = ("n", "m")
SIZES = [(61, 79), (43, 130), (2500, 2)]
"""Copies of tensors that are smaller are partitioned otherwise, under a guard."""


class Writer:
    """A graph of one input x: f32[n, m]."""

    def __init__(self) -> None:
        self.graph = Graph("open")
        self.x = self.graph.input("x", dtypes.f32, OPEN)

    def op(self, op: str, *inputs: Value | None, **attrs: object) -> Value:
        return self.graph.add(op, inputs, attrs, name=f"{op}{len(self.graph.nodes)}").output

    def ints(self, *numbers: int) -> Value:
        return self.graph.constant(np.array(numbers, np.int64))

    def scalar(self, number: float, dtype: type = np.int64) -> Value:
        return self.graph.constant(np.array(number, dtype))

    def shape(self) -> Value:
        return self.op("shape", self.x, start=0, end=None)

    def size(self, axis: int) -> Value:
        return self.op("gather", self.shape(), self.scalar(axis), axis=0)

    def done(self, *outputs: Value) -> Graph:
        self.graph.outputs = list(outputs)
        return self.graph


def check(graph: Graph, families: list[str], want: list[object]) -> None:
    """The calls are of these families and give `want(x)` for every size, under the guards of one lowering."""
    assert sorted(OpenSizes(graph).families) == sorted(families)
    for n, m in SIZES:
        x = np.random.default_rng(n).standard_normal((n, m)).astype(np.float32)
        found = OpenSizes(graph).run({"x": x}, n=n, m=m)
        for got, function in zip(found, want, strict=True):
            wanted = function(x)
            assert got.dtype == wanted.dtype
            np.testing.assert_array_equal(got, wanted)


def test_sizes_that_give_shapes_alone_are_not_written() -> None:
    """
    Only lowerings read them.
    """
    w = Writer()
    rows = w.op("unsqueeze", w.size(0), w.ints(0))
    columns = w.op("unsqueeze", w.size(1), w.ints(0))
    y = w.op("reshape", w.x, w.op("concat", columns, rows, axis=0), allowzero=False)

    check(w.done(y), ["copy_bytes"], [lambda x: x.reshape(x.shape[::-1])])


def test_sizes_that_are_read_are_written() -> None:
    """
    As an output, in another dtype, as a fraction, and as a part of a concatenation with data, into whose result they
    are written.
    """
    w = Writer()
    product = w.op("mul", w.size(0), w.size(1))
    largest = w.op("argmax", w.x, axis=1, keepdims=False, last=False)
    joined = w.op("concat", w.op("unsqueeze", product, w.ints(0)), largest, axis=0)

    real = w.op("cast", product, to=dtypes.f32)

    check(
        w.done(w.shape(), real, w.op("mul", real, w.scalar(0.3, np.float32)), joined),
        ["sizes", "sizes", "sizes", "sizes", "arg_reduce"],
        [
            lambda x: np.array(x.shape),
            lambda x: np.array(x.size, np.float32),
            lambda x: np.float32(x.size) * np.float32(0.3),
            lambda x: np.concatenate([[x.size], np.argmax(x, axis=1)]),
        ],
    )


def test_sizes_that_no_kernel_writes_are_pinned() -> None:
    """
    More elements than a kernel takes, integers and fractions: constants for the sample sizes, under guards.
    """
    w = Writer()
    many = w.op("expand", w.size(0), w.ints(70))
    half = w.op("mul", w.op("cast", w.size(1), to=dtypes.f32), w.scalar(0.5, np.float32))
    halves = w.op("expand", half, w.ints(70))
    x = np.zeros((5, 7), np.float32)
    for y, wanted, other in ((many, np.full(70, 5), {"n": 6, "m": 7}), (halves, np.full(70, 3.5), {"n": 5, "m": 8})):
        opened = OpenSizes(w.done(y), n=5, m=7)
        assert not opened.holds(**other)
        np.testing.assert_array_equal(opened.run({"x": x}, n=5, m=7)[0], wanted)


def test_ranges_over_sizes_have_kernels() -> None:
    """
    Integers and floats, up and down; the sizes that bound them are not written.
    """
    w = Writer()
    up = w.op("range", w.scalar(2), w.op("add", w.size(0), w.scalar(2)), w.scalar(1))
    down = w.op("range", w.size(1), w.scalar(0), w.scalar(-1))
    real = w.op("cast", w.size(0), to=dtypes.f32)
    floats = w.op("range", w.scalar(0, np.float32), real, w.scalar(1, np.float32))

    check(
        w.done(up, down, floats),
        ["range"] * 3,
        [
            lambda x: np.arange(2, len(x) + 2),
            lambda x: np.arange(x.shape[1], 0, -1),
            lambda x: np.arange(len(x), dtype=np.float32),
        ],
    )


@pytest.mark.parametrize("value", [np.array([7], np.int64), np.array([0.5], np.float32), np.array([True])])
def test_filled_tensors_are_copies_of_a_scalar(value: np.ndarray) -> None:
    """
    constant_of_shape of an open shape.
    """
    w = Writer()
    filled = w.op("constant_of_shape", w.shape(), value=value)

    check(w.done(filled), ["copy_rows"], [lambda x: np.full(x.shape, value[0])])


def test_a_filled_operand_is_not_made() -> None:
    """
    A reader that broadcasts takes the scalar.
    """
    w = Writer()
    filled = w.op("constant_of_shape", w.shape(), value=np.array([0.5], np.float32))

    assert len(OpenSizes(w.done(w.op("add", w.x, filled))).calls) == 1


def test_triangles_and_slices_take_sizes() -> None:
    """
    A mask of past and present, as decoders make it: rows from a size on, a diagonal at a size.
    """
    w = Writer()
    lower = w.op("trilu", w.x, w.op("sub", w.size(0), w.scalar(1)), upper=False)
    bounds = [w.op("unsqueeze", each, w.ints(0)) for each in (w.op("sub", w.size(0), w.scalar(2)), w.size(0))]
    rows = w.op("slice", w.x, *bounds, w.ints(0), w.ints(1))

    check(
        w.done(lower, rows),
        ["trilu", "copy_bytes"],
        [lambda x: np.tril(x, len(x) - 1), lambda x: x[-2:]],
    )
