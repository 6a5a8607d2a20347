"""Models whose sizes are values that they compute give what the onnx package's reference gives, by one plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import treadle
from tests.models.small import FLOAT, ModelWriter
from treadle.errors import RunError

INT64 = onnx.TensorProto.INT64
ROWS, WIDTH = 24, 16

Feeds = list[Mapping[str, np.ndarray]]


def counts(w: ModelWriter, x: str = "x") -> str:
    """How many elements of the first column of x are above 0: i64 [1]."""
    column = w.op("Slice", x, w.constant([0]), w.constant([1]), w.constant([1]))
    above = w.op("Cast", w.op("Greater", column, w.constant(np.float32(0))), to=INT64)
    return w.op("ReduceSum", w.op("Reshape", above, w.constant([-1])), w.constant([0]), keepdims=1)


def rows(*positive: int, count: int = ROWS) -> Feeds:
    """Matrices of which so many elements of the first column are above 0."""
    found: Feeds = []
    for number in positive:
        x = np.random.default_rng(number).standard_normal((count, WIDTH)).astype(np.float32)
        x[:, 0] = np.where(np.arange(count) < number, 1, -1) * (1 + np.abs(x[:, 0]))
        found.append({"x": x})
    return found


def run_both(model: onnx.ModelProto, feeds: Feeds) -> None:
    """Assert that a session gives what the reference gives, on one thread and on several."""
    for threads in (1, 3):
        session = treadle.Session(model, intra_op=threads, inter_op=threads)
        for given in feeds:
            results = session.run(dict(given)).values()
            for got, wanted in zip(results, ReferenceEvaluator(model).run(None, dict(given)), strict=True):
                assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype)
                np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


def modelled(build: Callable[[ModelWriter, str], str], shape: list[Any] | None = None) -> onnx.ModelProto:
    """The result of `build` for a computed number, with a layer behind it."""
    w = ModelWriter()
    y = build(w, counts(w))
    return w.model({"x": (FLOAT, shape or [ROWS, WIDTH])}, {w.op("Relu", y): (FLOAT, None)})


def top(w: ModelWriter, n: str) -> str:
    """The n largest elements of each column, times weights."""
    return w.op("MatMul", w.op("TopK", "x", n, axis=0, outputs=2), w.random(WIDTH, 8))


def first(w: ModelWriter, n: str) -> str:
    """The first n rows, times weights."""
    return w.op("MatMul", w.op("Slice", "x", w.constant([0]), n, w.constant([0])), w.random(WIDTH, 8))


def last(w: ModelWriter, n: str) -> str:
    """The rows from -n on."""
    return w.op("Slice", "x", w.op("Neg", n), w.constant([ROWS]), w.constant([0]))


def every(w: ModelWriter, n: str) -> str:
    """Every n-th row."""
    return w.op("Slice", "x", w.constant([0]), w.constant([ROWS]), w.constant([0]), n)


def expanded(w: ModelWriter, n: str) -> str:
    """x once for each of n."""
    shape = w.op("Concat", n, w.constant([ROWS, WIDTH]), axis=0)
    return w.op("Expand", "x", shape)


def tiled(w: ModelWriter, n: str) -> str:
    """x repeated n times, by an arithmetic that is known once n is."""
    repeats = w.op("Concat", w.op("Div", w.op("Add", n, w.constant([1])), w.constant([2])), w.constant([1]), axis=0)
    return w.op("Tile", "x", repeats)


def reshaped(w: ModelWriter, n: str) -> str:
    """x with rows of another length: as many as there are above 0, rounded up to a power of two."""
    wide = w.op("Mul", w.op("Div", w.op("Add", n, w.constant([7])), w.constant([8])), w.constant([8]))
    shape = w.op("Concat", w.constant([-1]), wide, axis=0)
    return w.op("Reshape", "x", shape)


def ranged(w: ModelWriter, n: str) -> str:
    """The rows with the numbers from 0 to n, by a range."""
    scalar = w.op("Squeeze", n, w.constant([0]))
    places = w.op("Range", w.constant(np.int64(0)), scalar, w.constant(np.int64(1)))
    return w.op("Gather", "x", places)


def filled(w: ModelWriter, n: str) -> str:
    """n rows of ones, times weights."""
    shape = w.op("Concat", n, w.constant([WIDTH]), axis=0)
    value = onnx.numpy_helper.from_array(np.ones(1, np.float32))
    return w.op("MatMul", w.op("ConstantOfShape", shape, value=value), w.random(WIDTH, 8))


def padded(w: ModelWriter, n: str) -> str:
    """x with n rows of zeros in front."""
    zeros = w.constant([0, 0, 0])
    return w.op("Pad", "x", w.op("Concat", n, zeros, axis=0))


@pytest.mark.parametrize("threads", [1, 3])
def test_padding(threads: int) -> None:
    """The reference of the onnx package refuses what it says: the formula is NumPy's."""
    session = treadle.Session(modelled(padded), intra_op=threads)
    for given in rows(3, 7, 0):
        (y,) = session.run(dict(given)).values()
        number = int((given["x"][:, 0] > 0).sum())
        np.testing.assert_array_equal(y, np.maximum(np.pad(given["x"], ((number, 0), (0, 0))), 0))


BUILDS = [top, first, last, every, expanded, tiled, reshaped, ranged, filled]


@pytest.mark.parametrize("build", BUILDS, ids=lambda build: build.__name__)
def test_results_have_computed_sizes(build: Callable[[ModelWriter, str], str]) -> None:
    """Also where the number is that of all elements, 1, and 0 where that is allowed."""
    run_both(modelled(build), rows(5, 7, 12, ROWS, 1, *([0] if build not in (every, last) else [])))


@pytest.mark.parametrize("build", BUILDS, ids=lambda build: build.__name__)
def test_one_plan_serves_all_numbers(build: Callable[[ModelWriter, str], str]) -> None:
    """New numbers are bound in the run: no compile, and no Python function among the steps."""
    session = treadle.Session(modelled(build))
    session.run(dict(rows(5)[0]))
    first_count = session.compiles
    for given in rows(6, 7, 4):
        session.run(dict(given))

    assert session.compiles == first_count
    assert all(call.function is None for plan in session.plans() for call in plan.calls)


@pytest.mark.parametrize("build", [top, first, ranged, filled], ids=lambda build: build.__name__)
def test_inputs_have_open_sizes_in_front_of_computed_ones(build: Callable[[ModelWriter, str], str]) -> None:
    """One plan in front, one behind, whatever the sizes of the inputs."""
    model = modelled(build, ["rows", WIDTH])
    run_both(model, [*rows(5, 9, count=20), *rows(11, 3, count=31)])
    session = treadle.Session(model)
    session.run(dict(rows(5)[0]))
    first_count = session.compiles
    for count in (17, 40, 33):
        session.run(dict(rows(6, count=count)[0]))
    assert session.compiles == first_count


@pytest.mark.parametrize("build", [top, first, last, ranged, filled], ids=lambda build: build.__name__)
def test_one_is_no_special_number(build: Callable[[ModelWriter, str], str]) -> None:
    """A first run that finds one element compiles a plan for all numbers."""
    session = treadle.Session(modelled(build))
    session.run(dict(rows(1)[0]))
    first_count = session.compiles
    for given in rows(6, 7, 4):
        session.run(dict(given))
    assert session.compiles <= first_count + 1
    before = session.compiles
    for given in rows(11, 1, 5):
        session.run(dict(given))
    assert session.compiles == before


def test_sizes_and_values_of_one_name_are_two() -> None:
    """A dimension of an input, and an input whose element is a size."""
    w = ModelWriter()
    y = w.op("MatMul", w.op("TopK", "x", "n", axis=0, outputs=2), w.random(WIDTH, 8))
    model = w.model(
        {"x": (FLOAT, ["n", WIDTH]), "n": (INT64, [1])}, {y: (FLOAT, None), w.op("Neg", "x"): (FLOAT, None)}
    )
    given = [(rows(5, count=count)[0]["x"], np.array([n])) for count, n in ((24, 5), (31, 7), (9, 9))]
    run_both(model, [{"x": x, "n": n} for x, n in given])


def chain() -> onnx.ModelProto:
    """The largest rows, those of them that a mask chooses, and so many of the first of these as a sum says."""
    w = ModelWriter()
    largest = w.op("TopK", "x", counts(w), axis=0, outputs=2)
    sums = w.op("ReduceSum", largest, w.constant([1]), keepdims=0)
    places = w.op("Squeeze", w.op("NonZero", w.op("Greater", sums, w.constant(np.float32(0)))), w.constant([0]))
    chosen = w.op("Gather", largest, places)
    length = w.op("Slice", w.op("Shape", chosen), w.constant([0]), w.constant([1]))
    total = w.op("ReduceSum", w.op("Cast", w.op("Greater", chosen, w.constant(np.float32(1))), to=INT64), keepdims=0)
    some = w.op("Min", length, w.op("Reshape", total, w.constant([1])))
    y = w.op("MatMul", w.op("Slice", chosen, w.constant([0]), some, w.constant([0])), w.random(WIDTH, 8))
    return w.model({"x": (FLOAT, ["rows", WIDTH])}, {y: (FLOAT, None), chosen: (FLOAT, None), largest: (FLOAT, None)})


def test_stages_are_in_a_chain() -> None:
    """Sizes that follow from what stands behind other sizes: all parts are of one run, and compiled once."""
    run_both(chain(), [*rows(20, 9, 24), *rows(11, 30, count=31)])
    session = treadle.Session(chain())
    session.run(dict(rows(20)[0]))
    first_count = session.compiles
    for number, count in ((14, 24), (20, 40), (12, 33)):
        session.run(dict(rows(number, count=count)[0]))

    assert session.compiles == first_count
    assert all(call.function is None for plan in session.plans() for call in plan.calls)


def test_results_of_a_shape_without_order_are_reversed() -> None:
    """What is found has a rank, so that Transpose needs no permutation."""
    w = ModelWriter()
    y = w.op("Exp", w.op("Cast", w.op("Transpose", w.op("NonZero", "x")), to=FLOAT))
    model = w.model({"x": (FLOAT, [ROWS, WIDTH])}, {y: (FLOAT, None)})
    feeds = [{"x": np.maximum(given["x"], 0) / 8} for given in rows(5, 8, 0)]
    run_both(model, feeds)
    session = treadle.Session(model)
    session.run(dict(feeds[0]))
    assert all(call.function is None for plan in session.plans() for call in plan.calls)


def test_wrong_numbers_are_named() -> None:
    """More than there are elements: the error names the node, and the next run is right."""
    w = ModelWriter()
    y = w.op("Relu", w.op("TopK", "x", "k", axis=0, outputs=2))
    session = treadle.Session(w.model({"x": (FLOAT, [ROWS, WIDTH]), "k": (INT64, [1])}, {y: (FLOAT, None)}))
    x = rows(5)[0]["x"]
    for k in (ROWS + 1, -1):
        with pytest.raises(RunError, match=f"topk0.*k is {k}"):
            session.run({"x": x, "k": np.array([k])})
        assert session.run({"x": x, "k": np.array([3])})[y].shape == (3, WIDTH)
