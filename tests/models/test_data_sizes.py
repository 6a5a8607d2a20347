"""Models with sizes that depend on data give what the onnx package's reference gives."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import treadle
from tests.models.small import FLOAT, ModelWriter

INT64 = onnx.TensorProto.INT64
BOOL = onnx.TensorProto.BOOL


def boxes(count: int, seed: int = 0) -> np.ndarray:
    """Boxes of which many overlap, as two corners."""
    numbers = np.random.default_rng(seed).random((1, count, 4)).astype(np.float32)
    numbers[..., 2:] = numbers[..., :2] + 0.3 * numbers[..., 2:]
    return numbers


def scores(classes: int, count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed + 1).random((1, classes, count)).astype(np.float32)


LIMITS: dict[str, np.ndarray] = {
    "most": np.array([7], np.int64),
    "overlap": np.array([0.4], np.float32),
    "least": np.array([0.6], np.float32),
}


def suppression(limits: int, *, constant: bool) -> onnx.ModelProto:
    """NonMaxSuppression with the first `limits` of LIMITS, which are constants or inputs."""
    w = ModelWriter()
    wanted = dict(list(LIMITS.items())[:limits])
    inputs: dict[str, tuple[int, list[Any]]] = {
        "boxes": (FLOAT, [1, 40, 4]),
        "scores": (FLOAT, [1, 3, 40]),
    }
    if not constant:
        inputs |= {name: (INT64 if name == "most" else FLOAT, [1]) for name in wanted}
    operands = [w.constant(array) if constant else name for name, array in wanted.items()]
    return w.model(inputs, {w.op("NonMaxSuppression", "boxes", "scores", *operands): (INT64, ["n", 3])})


def run_both(model: onnx.ModelProto, *feeds: Mapping[str, np.ndarray]) -> None:
    """Assert that a session gives what the reference gives, on one thread and on several."""
    reference = ReferenceEvaluator(model)
    for threads in (1, 3):
        session = treadle.Session(model, intra_op=threads, inter_op=threads)
        for inputs in feeds:
            results = session.run(dict(inputs)).values()
            for got, array in zip(results, reference.run(None, dict(inputs)), strict=True):
                assert (got.shape, got.dtype) == (array.shape, array.dtype)
                np.testing.assert_allclose(got, array, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("limits", [2, 3])
@pytest.mark.parametrize("constant", [True, False])
def test_boxes_are_suppressed(limits: int, constant: bool) -> None:
    """With limits that are constants or inputs, and without a least score."""
    model = suppression(limits, constant=constant)
    names = {each.name for each in model.graph.input}
    given: dict[str, np.ndarray] = {"boxes": boxes(40), "scores": scores(3, 40), **LIMITS}
    run_both(model, {name: array for name, array in given.items() if name in names})


@pytest.mark.parametrize("axis", [None, 0, -1])
def test_compress_keeps_what_the_condition_says(axis: int | None) -> None:
    """Along an axis, of all elements, and with a condition that is shorter than the axis."""
    w = ModelWriter()
    attrs = {} if axis is None else {"axis": axis}
    model = w.model(
        {"x": (FLOAT, [4, 5]), "keep": (BOOL, [3])}, {w.op("Compress", "x", "keep", **attrs): (FLOAT, None)}
    )
    x = np.random.default_rng(2).standard_normal((4, 5)).astype(np.float32)
    run_both(model, *({"x": x, "keep": np.array(keep)} for keep in ([True, False, True], [False] * 3, [True] * 3)))


def chosen_rows(count: int | str = 24) -> onnx.ModelProto:
    """Layers on the rows of x whose sum is positive."""
    w = ModelWriter()
    kept = rows_where(w, "x", is_above(w, "ReduceSum", "x", 0))
    y = w.op("Relu", w.op("MatMul", kept, w.random(16, 8)))
    return w.model({"x": (FLOAT, [count, 16])}, {y: (FLOAT, ["kept", 8])}, opset=12)


def rows_where(w: ModelWriter, x: str, condition: str) -> str:
    """The rows of x where the condition is true."""
    places = w.op("Squeeze", w.op("NonZero", condition), axes=[0])
    return w.op("Gather", x, places)


def is_above(w: ModelWriter, kind: str, x: str, limit: float) -> str:
    """Whether a reduction of each row of x is greater than a limit."""
    return w.op("Greater", w.op(kind, x, keepdims=0, axes=[1]), w.constant(np.float32(limit)))


def rows(positive: int, count: int = 24) -> np.ndarray:
    """Rows of which the first ones have a positive sum."""
    x = np.random.default_rng(count + positive).random((count, 16)).astype(np.float32)
    x[positive:] -= 1
    return x


def test_one_plan_serves_all_numbers_of_rows() -> None:
    """Whatever is found, what follows is compiled once; nothing found is a case of its own, compiled once too."""
    model = chosen_rows()
    run_both(model, *({"x": rows(positive)} for positive in (5, 1, 24, 0, 13)))
    session = treadle.Session(model)
    session.run({"x": rows(5)})
    first = session.compiles
    for positive in (2, 7, 24, 11):
        session.run({"x": rows(positive)})
    assert session.compiles == first
    for _ in range(2):
        session.run({"x": rows(0)})
    assert session.compiles == first + 1


def test_sizes_depend_on_data_twice() -> None:
    """Rows are chosen among chosen rows, and the chosen ones are outputs as well."""
    w = ModelWriter()
    kept = rows_where(w, "x", is_above(w, "ReduceSum", "x", 0))
    again = rows_where(w, kept, is_above(w, "ReduceMax", kept, 0.95))
    y = w.op("Tanh", w.op("MatMul", again, w.random(16, 8)))
    found = w.op("NonZero", kept)
    outputs: dict[str, tuple[int, list[Any] | None]] = {
        y: (FLOAT, ["n", 8]), found: (INT64, [2, "m"]), kept: (FLOAT, ["k", 16])
    }  # fmt: skip
    model = w.model({"x": (FLOAT, [24, 16])}, outputs, opset=12)
    run_both(model, *({"x": rows(positive)} for positive in (5, 24, 0, 13, 1)))


def test_everything_is_one_run(tmp_path: Path) -> None:
    """What finds rows and what follows are steps of one plan, and no Python runs between them."""
    session = treadle.Session(chosen_rows())
    with treadle.trace(tmp_path / "trace.json") as recording:
        for positive in (5, 7):
            session.run({"x": rows(positive)})

    assert all(call.function is None for plan in session.plans() for call in plan.calls)
    assert [call.op for call in session.plans()[0].calls if call.control is not None] == ["data_stage"]
    assert {"non_zero", "data_stage", "gather"} <= {event.op for event in recording.events}


def test_results_outlive_their_session() -> None:
    """Each result has memory of its own, which later runs leave alone."""
    session = treadle.Session(chosen_rows())
    first, second = (session.run({"x": rows(positive)}) for positive in (5, 9))
    kept = [np.array(array) for array in (*first.values(), *second.values())]
    for _ in range(3):
        session.run({"x": rows(12)})
    del session
    for array, before in zip((*first.values(), *second.values()), kept, strict=True):
        np.testing.assert_array_equal(array, before)


def test_a_failure_behind_sizes_names_its_node() -> None:
    """A kernel of the stage fails as one in front of it would."""
    w = ModelWriter()
    places = w.op("Squeeze", w.op("NonZero", "x"), w.constant(np.array([0])))
    y = w.op("Gather", w.random(4, 2), places)
    session = treadle.Session(w.model({"x": (FLOAT, [8])}, {y: (FLOAT, ["n", 2])}))
    good = np.zeros(8, np.float32)
    good[:3] = 1
    assert session.run({"x": good})[y].shape == (3, 2)
    with pytest.raises(treadle.errors.OutOfRangeError, match=y):
        session.run({"x": np.ones(8, np.float32)})
    assert session.run({"x": good})[y].shape == (3, 2)


def test_an_output_may_be_given_twice() -> None:
    """Results of unknown size, also what is found itself."""
    w = ModelWriter()
    found = w.op("NonZero", "x")
    y = w.op("Cast", found, to=FLOAT)
    model = w.model({"x": (FLOAT, [3, 4])}, {found: (INT64, [2, "n"]), y: (FLOAT, [2, "n"]), "x": (FLOAT, [3, 4])})
    run_both(model, {"x": np.eye(3, 4, dtype=np.float32)}, {"x": np.zeros((3, 4), np.float32)})


def test_threads_share_a_session() -> None:
    """Runs at the same time find sizes of their own."""
    session = treadle.Session(chosen_rows(), intra_op=2, inter_op=2)
    wanted = {positive: session.run({"x": rows(positive)}) for positive in range(25)}

    def check(positive: int) -> bool:
        results = session.run({"x": rows(positive)})
        return all(np.array_equal(results[name], array) for name, array in wanted[positive].items())

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(check, [*range(25)] * 4))


@pytest.mark.parametrize("cap", [1, 2])
def test_caps_hold_behind_sizes(cap: int) -> None:
    """A cap on a node of the stage is taken, at construction and later, and changes no bit."""
    model = chosen_rows(2000)
    product = next(node.name for node in model.graph.node if node.op_type == "MatMul")
    x = rows(1500, 2000)
    free = treadle.Session(model, intra_op=2).run({"x": x})
    session = treadle.Session(model, intra_op=2, node_intra_op={product: cap})
    for later in (cap, 3 - cap):
        session.set(node_intra_op={product: later})
        for name, array in session.run({"x": x}).items():
            np.testing.assert_array_equal(array, free[name])


def test_what_was_found_is_an_output_too() -> None:
    """The places and the elements there."""
    w = ModelWriter()
    places = w.op("NonZero", "x")
    values = w.op("Exp", w.op("GatherND", "x", w.op("Transpose", places)))
    model = w.model({"x": (FLOAT, [8, 8])}, {values: (FLOAT, ["n"]), places: (INT64, [2, "n"])})
    run_both(model, *({"x": masked(count)} for count in (0, 3, 9)))


def test_what_was_found_is_resized_by_computed_scales() -> None:
    """A size that follows from a float that is computed, on places that were found."""
    w = ModelWriter()
    places = w.op("NonZero", "x")
    values = w.op("Cast", places, to=FLOAT)
    scales = w.op(
        "Concat", w.constant(np.ones(1, np.float32)), w.op("Add", "scale", w.op("Sub", "scale", "scale")), axis=0
    )
    model = w.model(
        {"x": (FLOAT, [8, 8]), "scale": (FLOAT, [1])},
        {w.op("Resize", values, "", scales): (FLOAT, None), places: (INT64, [2, "n"])},
    )
    run_both(
        model, *({"x": masked(count), "scale": np.array([scale], np.float32)} for count, scale in ((3, 2), (9, 3)))
    )


def masked(count: int) -> np.ndarray:
    """The numbers from 1 to `count`, then zeros."""
    numbers = np.arange(1, 65, dtype=np.float32)
    return np.where(numbers <= count, numbers, np.float32(0)).reshape(8, 8)


def test_transposed_convolutions_of_sizes_that_data_tells() -> None:
    """Run natively, as those at the end of synthesisers of speech do; nothing has no elements."""
    w = ModelWriter()
    part = w.op("Slice", "x", w.constant(np.array([0])), "count", w.constant(np.array([2])))
    made = w.op("ConvTranspose", part, w.random(3, 2, 16), strides=[8], pads=[4, 4])
    model = w.model({"x": (FLOAT, [1, 3, "n"]), "count": (INT64, [1])}, {made: (FLOAT, None)})
    session, reference = treadle.Session(model), ReferenceEvaluator(model)
    x = np.random.default_rng(2).standard_normal((1, 3, 20)).astype(np.float32)
    for count in (5, 1, 20):
        feeds = {"x": x, "count": np.array([count])}
        (wanted,) = reference.run(None, feeds)
        np.testing.assert_allclose(session.run(feeds)[made], wanted, rtol=1e-4, atol=1e-5)
    assert all(call.function is None for plan in session.plans() for call in plan.calls)
    assert session.run({"x": x, "count": np.array([0])})[made].shape == (1, 2, 0)
