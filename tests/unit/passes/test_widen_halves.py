"""Graphs of f16 after the pass: computed in f32, stored as before."""

from __future__ import annotations

import numpy as np
from tests.unit.passes.conftest import TARGET, Writer

from treadle import dtypes
from treadle.graph.graph import Graph
from treadle.ops.evaluate import evaluate
from treadle.passes.base import Math, PassContext
from treadle.passes.infer_shapes import InferShapes
from treadle.passes.widen_halves import WidenHalves


def widened(w: Writer, math: Math = "fast") -> Graph:
    context = PassContext(TARGET, math=math)
    InferShapes().run(w.graph, context)
    WidenHalves().run(w.graph, context)
    assert not WidenHalves().run(w.graph, context), "a second run finds nothing to do"
    return w.graph


def ops(graph: Graph) -> list[str]:
    return [f"{node.op}:{node.outputs[0].dtype}" for node in graph.nodes]


def half(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape).astype(np.float16)


def test_results_stay_wide_between_the_ops_that_compute() -> None:
    w = Writer()
    x = w.input(2, 3, dtype=dtypes.f16)
    w.graph.outputs = [w.op("tanh", w.op("mul", w.op("exp", x), w.constant(half((3,)), np.float16)))]
    name = w.graph.outputs[0].name

    graph = widened(w)

    assert ops(graph) == ["cast:f32", "exp:f32", "mul:f32", "tanh:f32", "cast:f16"]
    assert (graph.outputs[0].name, graph.outputs[0].dtype) == (name, dtypes.f16)


def test_exact_math_rounds_each_result() -> None:
    w = Writer()
    x = w.input(40, 50, dtype=dtypes.f16)
    w.graph.outputs = [w.op("add", w.op("mul", x, x), x)]
    fed = {"x": half((40, 50))}
    wanted = fed["x"] * fed["x"] + fed["x"]

    graph = widened(w, "exact")

    (found,) = evaluate(graph, fed).values()
    np.testing.assert_array_equal(found, wanted)
    assert ops(graph).count("cast:f16") == 2


def test_fast_math_rounds_once() -> None:
    w = Writer()
    x = w.input(40, 50, dtype=dtypes.f16)
    w.graph.outputs = [w.op("add", w.op("mul", x, x), x)]
    fed = {"x": half((40, 50))}
    wide = fed["x"].astype(np.float32)

    (found,) = evaluate(widened(w), fed).values()

    np.testing.assert_array_equal(found, (wide * wide + wide).astype(np.float16))
    assert (found != fed["x"] * fed["x"] + fed["x"]).any()


def test_what_is_stored_as_f16_moves_as_f16() -> None:
    """A table is read as f16 and what is gathered widened; what was computed moves as f32."""
    w = Writer()
    ids = w.input(4, dtype=dtypes.i64)
    rows = w.op("gather", w.constant(half((9, 6)), np.float16), ids, axis=0)
    turned = w.op("transpose", w.op("relu", rows), perm=(1, 0))
    w.graph.outputs = [w.op("exp", turned)]

    assert ops(widened(w)) == ["gather:f16", "cast:f32", "relu:f32", "transpose:f32", "exp:f32", "cast:f16"]


def test_what_grows_stays_stored_as_f16() -> None:
    """New rows are rounded and appended to stored ones, which are not widened first."""
    w = Writer()
    past, x = w.input(3, 4, name="past", dtype=dtypes.f16), w.input(1, 4, dtype=dtypes.f16)
    w.graph.outputs = [w.op("concat", past, w.op("exp", x), axis=0)]

    assert ops(widened(w)) == ["cast:f32", "exp:f32", "cast:f16", "concat:f16"]


def test_casts_of_the_model_round() -> None:
    """f32 -> f16 -> f32 loses digits in the model, and still does; whole numbers become f16 by way of f32."""
    w = Writer()
    x, n = w.input(5), w.input(5, name="n", dtype=dtypes.i64)
    rounded = w.op("cast", w.op("cast", x, to=dtypes.f16), to=dtypes.f32)
    whole = w.op("cast", w.op("relu", w.op("cast", n, to=dtypes.f16)), to=dtypes.i32)
    w.graph.outputs = [rounded, whole]
    fed = {"x": np.linspace(0.1, 0.5, 5, dtype=np.float32), "n": np.arange(-2, 3)}

    graph = widened(w)

    found = evaluate(graph, fed)
    np.testing.assert_array_equal(found[graph.outputs[0].name], fed["x"].astype(np.float16).astype(np.float32))
    np.testing.assert_array_equal(found[graph.outputs[1].name], [0, 0, 0, 1, 2])


def test_results_that_are_no_halves_keep_their_dtype() -> None:
    w = Writer()
    x = w.input(3, 4, dtype=dtypes.f16)
    w.graph.outputs = [w.op("argmax", x, axis=1, keepdims=False, last=False), w.op("gt", x, w.constant(0, np.float16))]

    assert [value.dtype for value in widened(w).outputs] == [dtypes.i64, dtypes.boolean]


def test_graphs_without_arithmetic_on_halves_stay_as_they_are() -> None:
    w = Writer()
    x = w.input(3, 4, dtype=dtypes.f16)
    w.graph.outputs = [w.op("cast", w.op("transpose", x, perm=(1, 0)), to=dtypes.f32)]

    assert ops(widened(w)) == ["transpose:f16", "cast:f32"]
