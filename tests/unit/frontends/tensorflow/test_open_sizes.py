"""Frozen graphs with open dimensions have one plan for all sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle
from tests.unit.frontends.tensorflow.graphs import Writer
from treadle.dtypes import boolean, from_numpy, i32
from treadle.frontends.tensorflow import load
from treadle.graph.template import Template
from treadle.ops.evaluate import evaluate

RNG = np.random.default_rng(3)
Inputs = dict[str, tuple[int | None, ...]]


def element(write: Writer, vector: str, place: int) -> str:
    """vector[place]"""
    bounds = [write.ints(place), write.ints(place + 1), write.ints(1)]
    return write.node("StridedSlice", vector, *bounds, Index=i32, shrink_axis_mask=1)


def size_of(write: Writer, x: str, axis: int) -> str:
    return element(write, write.node("Shape", x, out_type=i32), axis)


def pack(write: Writer, *numbers: str | int) -> str:
    tensors = [write.constant(number, np.int32) if isinstance(number, int) else number for number in numbers]
    return write.node("Pack", *tensors, T=i32, N=len(tensors), axis=0)


def attention(write: Writer) -> str:
    """Heads by the shape arithmetic that Keras writes."""
    x = write.input("x", (None, None, 8))
    batch, length = size_of(write, x, 0), size_of(write, x, 1)
    rows = write.node("Reshape", x, write.ints(-1, 8))

    def heads(perm: tuple[int, ...]) -> str:
        flat = write.node("MatMul", rows, write.weights(8, 8))
        split = write.node("Reshape", flat, pack(write, batch, length, 2, 4))
        return write.node("Transpose", split, write.ints(*perm))

    scores = write.node("BatchMatMulV2", heads((0, 2, 1, 3)), heads((0, 2, 3, 1)))
    weighted = write.node("BatchMatMulV2", write.node("Softmax", scores), heads((0, 2, 1, 3)))
    joined = write.node("Transpose", weighted, write.ints(0, 2, 1, 3))
    return write.node("Reshape", joined, pack(write, batch, length, -1))


def convolutions(write: Writer) -> str:
    """SAME padding, whose amount depends on the size; a mean over the image."""
    x = write.input("x", (None, None, None, 3))
    y = write.node("Relu", write.conv(x, (3, 3, 3, 16), 2))
    y = write.node("Relu6", write.conv(y, (3, 3, 16, 16)))
    y = write.node("Relu", write.conv(y, (2, 2, 16, 32), 2, padding="VALID"))
    mean = write.node("Mean", y, write.ints(1, 2))
    return write.node("Softmax", write.node("MatMul", mean, write.weights(32, 5)))


def repeated(write: Writer) -> str:
    x = write.input("x", (None, None, 3))
    ones = write.node("Fill", pack(write, size_of(write, x, 0), 4), write.constant(1, np.float32))
    tiled = write.node(
        "Tile", write.node("ExpandDims", ones, write.constant(1, np.int32)), pack(write, 1, size_of(write, x, 1), 1)
    )
    return write.node("ConcatV2", x, tiled, write.constant(-1, np.int32), N=2)


def mirrored(write: Writer) -> str:
    x = write.input("x", (None, None, 3))
    pads = write.constant([[1, 1], [0, 3], [1, 1]], np.int32)
    return write.node("MirrorPad", x, pads, mode="SYMMETRIC")


def classes(write: Writer) -> str:
    """one_hot of as many classes as there are columns."""
    x = write.input("x", (None, None))
    best = write.node("ArgMax", x, write.constant(1, np.int32), output_type=i32)
    on, off = write.constant(1, np.float32), write.constant(0, np.float32)
    return write.node("OneHot", best, size_of(write, x, 1), on, off, axis=-1)


def masked(write: Writer) -> str:
    """Only earlier positions are seen, by a comparison of ranges."""
    x = write.input("x", (None, None, None))
    start, step = (write.constant(number, np.int32) for number in (0, 1))
    rows, places = (write.node("Range", start, size_of(write, x, axis), step, T=None, Tidx=i32) for axis in (1, 2))
    rows = write.node("ExpandDims", rows, write.constant(1, np.int32), T=i32)
    seen = write.node("GreaterEqual", rows, places, T=i32)
    return write.node("SelectV2", seen, x, write.node("ZerosLike", x))


def resized(write: Writer) -> str:
    """To twice the size that a run gives."""
    x = write.input("x", (None, None, None, 2))
    sizes = element_range(write, write.node("Shape", x, out_type=i32), 1, 3)
    return write.node("ResizeBilinear", x, write.node("Mul", sizes, write.ints(2, 2), T=i32), half_pixel_centers=True)


def element_range(write: Writer, vector: str, begin: int, end: int) -> str:
    return write.node("StridedSlice", vector, write.ints(begin), write.ints(end), write.ints(1), Index=i32)


def sliced(write: Writer) -> str:
    """All but the ends, and the last row."""
    x = write.input("x", (None, None, 4))
    inner = write.node("Slice", x, write.ints(0, 1, 0), write.ints(-1, 2, -1))
    last = write.node("StridedSlice", x, write.ints(0, -1, 0), write.ints(0, 0, 2), write.ints(1, 1, 2), Index=i32,
                      begin_mask=1, end_mask=1, shrink_axis_mask=2)  # fmt: skip
    return write.node(
        "AddV2", write.node("Sum", inner, write.ints(1)), write.node("Sum", last, write.ints(1), keep_dims=True)
    )


def normalized(write: Writer) -> str:
    x = write.input("x", (None, None, 6))
    mean = write.node("Mean", x, write.ints(-1), keep_dims=True)
    squares = write.node("SquaredDifference", x, mean)
    variance = write.node("Mean", squares, write.ints(-1), keep_dims=True)
    root = write.node("Rsqrt", write.node("AddV2", variance, write.constant(1e-3, np.float32)))
    return write.node("BiasAdd", write.node("Mul", write.node("Sub", x, mean), root), write.weights(6))


def any_of(write: Writer) -> str:
    x = write.input("x", (None, None))
    positive = write.node("Greater", x, write.constant(0.5, np.float32))
    return write.node("Any", positive, write.ints(1), T=boolean)


MODELS: dict[str, Callable[[Writer], str]] = {
    each.__name__: each
    for each in (
        attention, convolutions, repeated, mirrored, classes, masked, resized, sliced, normalized, any_of,
    )
}  # fmt: skip

SIZES = [(2, 5, 7), (1, 4, 4), (3, 33, 18), (8, 6, 65), (2, 5, 7)]


def references(template: Template, x: Any) -> Any:
    """What the NumPy references give for the graph of this size."""
    graph = template.build([(from_numpy(x.dtype), x.shape)])
    return next(iter(evaluate(graph, {"x": x}).values()))


@pytest.fixture(autouse=True)
def _nothing_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions compile their model themselves: with this knob they neither read nor write compiled models."""
    monkeypatch.setenv("TREADLE_DEBUG", "1")


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", MODELS)
def test_one_plan_serves_all_sizes(name: str, threads: int) -> None:
    """
    It is compiled while the graph is loaded; runs compile nothing, and give what the references give.
    """
    write = Writer()
    output = MODELS[name](write)
    template = load(write.graph.SerializeToString(), outputs=[output])
    assert isinstance(template, Template)
    session = treadle.Session(template, intra_op=threads)
    assert session.compiles == 1, session.why_per_size()

    declared = session.inputs[0].shape
    assert declared is not None
    for sizes in SIZES:
        shape = tuple(dim if isinstance(dim, int) else size for dim, size in zip(declared, (*sizes, 1), strict=False))
        x = RNG.standard_normal(shape).astype(np.float32)
        (found,) = session.run({"x": x}).values()
        wanted = references(template, x)
        assert found.shape == wanted.shape
        assert found.dtype == wanted.dtype
        np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-5)
    assert session.compiles == 1, [plan.guards for plan in session.open_plans()]


def test_outputs_have_the_names_of_the_inputs_sizes() -> None:
    """
    Where they are equal for all sizes; other sizes have names of their own.
    """
    write = Writer()
    x = write.input("x", (None, None, 8))
    same = write.node("Relu", x)
    padded = write.node("Pad", x, write.constant([[0, 0], [1, 1], [0, 0]], np.int32))
    session = treadle.Session(load(write.graph.SerializeToString(), outputs=[same, padded]))

    assert [output.shape for output in session.outputs] == [("?0", "?1", 8), ("?0", "?out0", 8)]


def test_a_branch_has_what_both_sides_have() -> None:
    """
    The predicate is known in the run only.
    """
    write = Writer()
    x, test = write.input("x", (None, 4)), write.input("test", (), "bool")
    down, up = write.node("Switch", x, test), write.node("Switch", x, test)
    wide = write.node("ConcatV2", f"{up}:1", f"{up}:1", write.constant(0, np.int32), N=2)
    merged = write.node("Merge", write.node("Relu", down), wide, N=2)
    session = treadle.Session(load(write.graph.SerializeToString(), outputs=[merged]))

    assert [output.shape for output in session.outputs] == [("?out0", 4)]
