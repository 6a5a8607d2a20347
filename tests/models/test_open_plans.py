"""What a session tells of the plans of open dimensions: how many it compiled, their guards, and why there are none."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import treadle
from tests.models.small import FLOAT, ModelWriter
from tests.unit.frontends.tensorflow.graphs import Writer, function_attr
from treadle.dtypes import boolean, f32
from treadle.open_plans import OpenPlans

Array = np.ndarray[Any, Any]
BOOL, INT64 = onnx.TensorProto.BOOL, onnx.TensorProto.INT64


@pytest.fixture(autouse=True)
def _nothing_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions compile their model themselves: with this knob they neither read nor write compiled models."""
    monkeypatch.setenv("TREADLE_DEBUG", "1")


def rows(length: int) -> Array:
    """Returns an input of 8 columns."""
    return np.random.default_rng(length).standard_normal((length, 8)).astype(np.float32)


def softmax() -> onnx.ModelProto:
    """A softmax of each row, for every number of rows."""
    w = ModelWriter()
    y = w.op("Softmax", "x", axis=-1)
    return w.model({"x": (FLOAT, ["length", 8])}, {y: (FLOAT, None)})


def doubled_if_short() -> onnx.ModelProto:
    """Fewer than 16 rows times 2, more times 3."""
    w = ModelWriter()
    length = w.op("Gather", w.op("Shape", "x"), w.constant(np.array(0)), axis=0)
    short = w.op("Less", length, w.constant(np.array(16)))
    factor = w.op("Where", short, w.constant(np.float32(2)), w.constant(np.float32(3)))
    y = w.op("Mul", "x", factor)
    return w.model({"x": (FLOAT, ["length", 8])}, {y: (FLOAT, None)})


def positions() -> onnx.ModelProto:
    """A sum with the first rows of a table of 64."""
    w = ModelWriter()
    length = w.op("Gather", w.op("Shape", "x"), w.constant(np.array([0])), axis=0)
    zero = w.constant(np.array([0]))
    y = w.op("Add", "x", w.op("Slice", w.random(64, 8), zero, length, zero))
    return w.model({"x": (FLOAT, ["length", 8])}, {y: (FLOAT, None)})


def total() -> onnx.ModelProto:
    """The sum of two inputs, each with a number of rows of its own."""
    w = ModelWriter()
    y = w.op("Add", "x", "z")
    return w.model({"x": (FLOAT, ["a", 8]), "z": (FLOAT, ["b", 8])}, {y: (FLOAT, None)})


def guards(session: treadle.Session) -> list[list[str]]:
    """Returns the guards of each open plan."""
    return [plan.guards for plan in session.open_plans()]


def test_five_sizes_compile_nothing_after_loading() -> None:
    """The counter stays at the one plan that loading has compiled."""
    session = treadle.Session(softmax())

    loaded = session.compiles
    for length in (1, 7, 16, 200, 33):
        session.run({"x": rows(length)})

    assert (loaded, session.compiles) == (1, 1)
    assert guards(session) == [["length >= 1"]]
    assert session.open_plans()[0].plan.outputs[0].shape[0] is session.open_plans()[0].facts.symbols["length"]
    assert session.why_per_size() is None


def test_sizes_beyond_a_guard_have_a_second_plan() -> None:
    """It is compiled once, serves all sizes on the other side of the guard, and the first one keeps the others."""
    session = treadle.Session(doubled_if_short())
    assert guards(session) == [["length >= 16"]]

    counts = []
    for length in (16, 100, 15, 3, 1, 40):
        x = rows(length)
        np.testing.assert_array_equal(session.run({"x": x})["mul4"], x * np.float32(2 if length < 16 else 3))
        counts.append(session.compiles)

    assert counts == [1, 1, 2, 2, 2, 2]
    assert guards(session) == [["length >= 16"], ["length >= 1", "length <= 15"]]
    assert [plan.serves({"length": 15}) for plan in session.open_plans()] == [False, True]


def test_further_sizes_are_bound_without_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Once the first plan has served a size it is bound to others at once; sizes beyond its guard are looked for.
    """
    session = treadle.Session(doubled_if_short())
    session.run({"x": rows(20)})

    def fail(*_: object) -> None:
        raise AssertionError("nothing is looked for")

    with monkeypatch.context() as patched:
        patched.setattr(OpenPlans, "find_sizes", fail)
        for length in (16, 100, 20):
            x = rows(length)
            np.testing.assert_array_equal(session.run({"x": x})["mul4"], x * np.float32(3))
            found = session.run_async({"x": x}).result()["mul4"]
            np.testing.assert_array_equal(found, x * np.float32(3))
        with pytest.raises(AssertionError, match="nothing is looked for"):
            session.run({"x": rows(15)})
    np.testing.assert_array_equal(session.run({"x": rows(15)})["mul4"], rows(15) * np.float32(2))


def test_sizes_that_cannot_be_leave_the_plans_as_they_are() -> None:
    """More rows than the table has are an error of the node, and compile nothing; the next run is served as before."""
    session = treadle.Session(positions())
    assert guards(session) == [["length >= 1", "length <= 64"]]

    with pytest.raises(treadle.errors.ShapeError, match="broadcast"):
        session.run({"x": rows(65)})
    session.run({"x": rows(64)})

    assert session.compiles == 1
    assert session.why_per_size() is None


def test_dimensions_of_two_names_that_must_be_equal_have_a_plan_when_loaded() -> None:
    """The samples are fitted to the sum; a size of 1 that is broadcast has a plan of its own."""
    session = treadle.Session(total())
    assert (session.compiles, guards(session), session.why_per_size()) == (1, [["a >= 1", "b >= 1", "a == b"]], None)

    with pytest.raises(treadle.errors.ShapeError, match="broadcast"):
        session.run({"x": rows(5), "z": rows(4)})
    for length in (3, 5, 9):
        session.run({"x": rows(length), "z": rows(length)})
    assert session.compiles == 1

    for given in ({"x": rows(1), "z": rows(3)}, {"x": rows(6), "z": rows(6)}, {"x": rows(1), "z": rows(7)}):
        (y,) = session.run(given).values()
        np.testing.assert_array_equal(y, given["x"] + given["z"])
    assert session.compiles == 2
    assert "a == 1" in guards(session)[1]
    assert session.why_per_size() is None


def test_samples_are_fitted_to_sums_products_and_tables() -> None:
    """A mask of past and new positions, flattened rows, and a table of 50 positions: one plan, made while loading."""
    w = ModelWriter()
    zero, one = w.constant(np.array([0])), w.constant(np.array([1]))
    length = w.op("Slice", w.op("Shape", "new"), one, w.constant(np.array([2])))
    placed = w.op("Add", "new", w.op("Slice", w.random(50, 4), zero, length, zero))
    masked = w.op("Mul", w.op("Concat", "past", placed, axis=1), "mask")
    flat = w.op("Add", w.op("Reshape", "new", w.constant(np.array([-1, 4]))), "flat")
    session = treadle.Session(
        w.model(
            {
                "new": (FLOAT, ["batch", "length", 4]),
                "past": (FLOAT, ["batch", "past", 4]),
                "mask": (FLOAT, ["total", 1]),
                "flat": (FLOAT, ["rows", 4]),
            },
            {masked: (FLOAT, None), flat: (FLOAT, None)},
        )
    )
    assert session.why_per_size() is None
    (found,) = guards(session)
    assert {"length <= 50", "length + past == total", "batch*length == rows"} <= set(found)

    for batch, new, past in [(1, 1, 0), (2, 50, 7), (3, 5, 2)]:
        shapes = {"new": (batch, new, 4), "past": (batch, past, 4), "mask": (new + past, 1), "flat": (batch * new, 4)}
        given = {name: np.random.default_rng(len(name)).random(shape, np.float32) for name, shape in shapes.items()}
        results = session.run(given)
        np.testing.assert_array_equal(results[flat], given["new"].reshape(-1, 4) + given["flat"])
        np.testing.assert_array_equal(results[masked][:, :past], given["past"] * given["mask"][:past])
    assert session.compiles == 1


def test_sizes_that_no_sample_fits_wait_for_the_first_run() -> None:
    """A plan for 5 rows alone is none for open sizes."""
    w = ModelWriter()
    y = w.op("Add", "x", w.random(5, 8))
    session = treadle.Session(w.model({"x": (FLOAT, ["length", 8])}, {y: (FLOAT, None)}))

    assert session.compiles == 0
    assert "the sample sizes do not fit: node 'add0' (add)" in str(session.why_per_size())
    session.run({"x": rows(5)})
    assert session.compiles == 1
    assert str(session.why_per_size()) == "a plan would be valid only for length == 5"


def test_large_sample_sizes_are_tried_where_small_ones_do_not_fit() -> None:
    """Blocks of 4 pixels, and the 300 best of a row: loading compiles the plan for all sizes that fit."""
    w = ModelWriter()
    squares = w.op("SpaceToDepth", "x", blocksize=4)
    best = w.op("TopK", "z", w.constant(np.array([300])), outputs=2)
    session = treadle.Session(
        w.model(
            {"x": (FLOAT, [1, 1, "height", 8]), "z": (FLOAT, ["length"])}, {squares: (FLOAT, None), best: (FLOAT, None)}
        )
    )

    assert session.why_per_size() is None
    for height, length in [(4, 300), (8, 1000), (400, 301)]:
        session.run({"x": np.zeros((1, 1, height, 8), np.float32), "z": np.zeros(length, np.float32)})
    assert session.compiles == 1


def test_models_without_an_open_plan_say_why_and_count_each_size() -> None:
    """The reason names the node, whose result has a rank that data tells."""
    w = ModelWriter()
    y = w.op("Squeeze", "x", w.op("Neg", "axes"))
    session = treadle.Session(w.model({"x": (FLOAT, ["length", 1, 1]), "axes": (INT64, ["count"])}, {y: (FLOAT, None)}))

    counts = [session.compiles]
    for length in (2, 3, 2):
        session.run({"x": rows(length)[:, :1, None], "axes": np.array([-1])})
        counts.append(session.compiles)

    assert counts == [0, 1, 2, 2]
    assert session.open_plans() == []
    assert str(session.why_per_size()) == f"sizes depend on data, or elements are strings: {y} (squeeze)"


def test_one_plan_serves_all_sizes_in_front_of_what_data_sizes() -> None:
    """What finds elements, and what is behind."""
    w = ModelWriter()
    session = treadle.Session(w.model({"x": (FLOAT, ["length", 8])}, {w.op("NonZero", "x"): (INT64, None)}))

    counts = [session.compiles]
    for length in (2, 3, 2):
        session.run({"x": rows(length)})
        counts.append(session.compiles)

    assert counts == [1, 2, 2, 2]
    assert len(session.open_plans()) == 1
    assert session.why_per_size() is None


def test_results_of_unknown_shape_are_a_reason() -> None:
    """The onnx package's reference computes what has no rule; the reason names the node."""
    w = ModelWriter()
    session = treadle.Session(w.model({"x": (FLOAT, ["n", 8])}, {w.op("Unique", "x", axis=0): (FLOAT, None)}))

    assert str(session.why_per_size()).startswith("only Python can tell the shape of a result: unique0 (")


def test_the_bodies_of_branches_are_counted() -> None:
    """A branch whose sides differ in shape is compiled in the run that takes it first."""
    w = Writer()
    x, flag = w.input("x", (None, 8)), w.input("choice", (), "bool")
    w.function("smooth", {"a": f32}, {"r": "of:softmax:0"}, [("of", "Softmax", ["a"], {"T": f32})])
    square = ("of", "MatMul", ["a", "a"], {"T": f32, "transpose_b": True})
    w.function("square", {"a": f32}, {"r": "of:product:0"}, [square])
    w.node("If", flag, x, T=None, Tin=[f32], Tout=[f32], Tcond=boolean, name="y",
           then_branch=function_attr("smooth"), else_branch=function_attr("square"))  # fmt: skip
    session = treadle.Session(w.bytes())
    assert session.why_per_size() is None

    counts = []
    for choose in (True, True, False, False):
        session.run({"x": rows(4), "choice": np.array(choose)})
        counts.append(session.compiles)

    assert counts == [3, 3, 4, 4]


def test_a_static_model_is_counted_once_unless_it_is_read_from_disk(tmp_path: Any, monkeypatch: Any) -> None:
    """The artifact of the first load spares the second one the compile."""
    monkeypatch.setenv("TREADLE_CACHE", str(tmp_path))
    monkeypatch.delenv("TREADLE_DEBUG")
    w = ModelWriter()
    content = w.model({"x": (FLOAT, [4, 8])}, {w.op("Softmax", "x"): (FLOAT, None)}).SerializeToString()

    counts = [treadle.Session(content).compiles for _ in range(2)]

    assert counts == [1, 0]


def test_switching_open_sizes_off_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """TREADLE_DISABLE is named."""
    monkeypatch.setenv("TREADLE_DISABLE", "open_sizes")
    session = treadle.Session(softmax())

    assert (session.compiles, session.open_plans()) == (0, [])
    assert str(session.why_per_size()) == "TREADLE_DISABLE names open_sizes"


def test_no_more_than_four_plans_are_held() -> None:
    """Sizes beyond them are compiled for themselves, and the reason says so."""
    w = ModelWriter()
    length = w.op("Gather", w.op("Shape", "x"), w.constant(np.array(0)), axis=0)
    y = "x"
    for limit in (100, 90, 80, 70, 60):
        short = w.op("Less", length, w.constant(np.array(limit)))
        y = w.op("Where", short, y, w.op("Add", y, w.constant(np.float32(1))))
    session = treadle.Session(w.model({"x": (FLOAT, ["length", 8])}, {y: (FLOAT, None)}))

    for number in (61, 50, 75, 85, 95, 105, 104):
        x = rows(number)
        more = sum(number >= limit for limit in (100, 90, 80, 70, 60))
        np.testing.assert_allclose(session.run({"x": x})[y], x + np.float32(more), rtol=1e-6)

    assert len(session.open_plans()) == 4
    assert session.compiles == 4 + 3
    assert str(session.why_per_size()) == "4 plans are held, the most for one model"
