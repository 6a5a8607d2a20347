"""Loops that append to what they carry: in its memory where new elements lie behind all old ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto

import treadle
from tests.models.expected import expected_results
from tests.models.small import FLOAT, ModelWriter, node
from tests.models.test_data_loops import POOLS, SIZE, X, body
from treadle.runtime.data_stage import DataStage, LoopForm

INT64 = TensorProto.INT64


def looping(nodes: Sequence[onnx.NodeProto], results: Sequence[str], *first: Any) -> onnx.ModelProto:
    """Returns a model whose Loop carries values that begin as `first`: arrays, or inputs."""
    w = ModelWriter()
    w.nodes.append(node("Identity", [w.random(1, SIZE)], "bias"))
    begin = [each if isinstance(each, str) else w.constant(each) for each in first]
    carried = dict.fromkeys(("s", "t")[: len(begin)], FLOAT)
    step = body([*nodes, node("Identity", ["on"], "again")], carried, *results)
    names = w.op("Loop", "n", "", *begin, outputs=len(results), body=step)
    outputs = [names, *(f"{names}_{number}" for number in range(1, len(results)))]
    inputs: dict[str, tuple[int, list[Any]]] = {"x": (FLOAT, ["rows", SIZE]), "n": (INT64, [])}
    return w.model(inputs, {**dict.fromkeys(outputs, (FLOAT, None)), w.op("Neg", names): (FLOAT, None)})


def row(of: str) -> list[onnx.NodeProto]:
    """Computes a row of the mean of rows."""
    return [node("ReduceMean", [of], "mean", axes=[0]), node("Add", ["mean", "bias"], "row")]


NOTHING = np.zeros((0, SIZE), np.float32)
BATCH = np.ones((1, 2, SIZE), np.float32)
BATCHES = np.ones((2, 2, SIZE), np.float32)

CASES: dict[str, tuple[Callable[[], onnx.ModelProto], list[bool]]] = {
    "rows": (lambda: looping([*row("s"), node("Concat", ["s", "row"], "longer", axis=0)], ["longer"], "x"), [True]),
    "from nothing": (lambda: looping([node("Concat", ["s", "x"], "longer", axis=0)], ["longer"], NOTHING), [True]),
    "several operands": (
        lambda: looping([*row("s"), node("Concat", ["s", "row", "x", "row"], "longer", axis=-2)], ["longer"], "x"),
        [True],
    ),
    "itself": (lambda: looping([node("Concat", ["s", "s"], "longer", axis=0)], ["longer"], "x"), [True]),
    "of one batch": (
        lambda: looping(
            [
                node("ReduceMean", ["s"], "mean", axes=[1]),
                node("Add", ["mean", "bias"], "row"),
                node("Concat", ["s", "row"], "longer", axis=1),
            ],
            ["longer"],
            BATCH,
        ),
        [True],
    ),
    "of two batches": (
        lambda: looping([node("Concat", ["s", "s"], "longer", axis=1)], ["longer"], BATCHES),
        [False],
    ),
    "in front": (
        lambda: looping([*row("s"), node("Concat", ["row", "s"], "longer", axis=0)], ["longer"], "x"),
        [False],
    ),
    "read before and behind": (
        lambda: looping(
            [
                *row("s"),
                node("Concat", ["s", "row"], "longer", axis=0),
                node("Identity", ["s"], "before"),
                node("ReduceMax", ["longer"], "greatest", axes=[0]),
            ],
            ["longer", "before", "greatest"],
            "x",
            "x",
        ),
        [True, False],
    ),
    "by turns": (
        lambda: looping(
            [*row("s"), node("Concat", ["t", "row"], "one", axis=0), node("Concat", ["s", "row"], "other", axis=0)],
            ["one", "other"],
            "x",
            NOTHING,
        ),
        [False, False],
    ),
    "twice": (
        lambda: looping(
            [*row("s"), node("Concat", ["s", "row"], "one", axis=0), node("Concat", ["t", "one"], "other", axis=0)],
            ["one", "other"],
            "x",
            NOTHING,
        ),
        [True, True],
    ),
}


def assert_agrees(session: treadle.Session, model: onnx.ModelProto, given: Mapping[str, Any]) -> None:
    found = {threads: list(session.run(given, pool=pool).values()) for threads, pool in POOLS.items()}
    for number, wanted in enumerate(expected_results(model, given)):
        result = found[1][number]
        assert result.shape == wanted.shape
        np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-5)
        assert all(results[number].tobytes() == result.tobytes() for results in found.values())


@pytest.mark.parametrize("name", CASES)
def test_what_is_carried_grows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The results are as expected, with the same bits at all numbers of threads; it is known what grows in place."""
    forms: list[LoopForm] = []
    put = LoopForm.put_ahead
    monkeypatch.setattr(LoopForm, "put_ahead", lambda self, *to: (forms.append(self), put(self, *to))[1])
    make, in_place = CASES[name]
    model = make()
    session = treadle.Session(model)
    for n in (1, 2, 9):
        for rows in (1, 3):
            assert_agrees(session, model, {"x": X[:rows], "n": np.array(n)})
    assert {tuple(form.appended) for form in forms} == {tuple(in_place)}


def test_a_stored_loop_grows_in_place(tmp_path: Any) -> None:
    """A session that finds its artifact knows it too."""
    model = CASES["rows"][0]()
    file = tmp_path / "model.onnx"
    onnx.save(model, file)
    for _ in range(2):
        session = treadle.Session(str(file))
        assert_agrees(session, model, {"x": X, "n": np.array(30)})


def test_a_value_that_grows_in_place_does_not_change_inputs() -> None:
    x = X.copy()
    session = treadle.Session(CASES["rows"][0]())
    session.run({"x": x, "n": np.array(50)})
    np.testing.assert_array_equal(x, X)


def test_trimming_reaches_bodies() -> None:
    """The memory of a body that the native core binds is freed; the session may be used again."""
    w = ModelWriter()
    w.nodes.append(node("Identity", [w.random(SIZE, SIZE)], "weights"))
    inner = onnx.helper.make_graph(
        [
            node("Identity", ["on2"], "again2"),
            node("MatMul", ["s2", "weights"], "product"),
            node("Softmax", ["product"], "shares", axis=0),
            node("MatMul", ["shares", "weights"], "next2"),
        ],
        "inner",
        [
            onnx.helper.make_tensor_value_info("i2", INT64, []),
            onnx.helper.make_tensor_value_info("on2", TensorProto.BOOL, []),
            onnx.helper.make_tensor_value_info("s2", FLOAT, None),
        ],
        [onnx.helper.make_empty_tensor_value_info(name) for name in ("again2", "next2")],
    )
    nodes = [
        node("Loop", [w.constant(np.array(2)), "", "s"], "made", body=inner),
        node("Concat", ["made", "x"], "longer", axis=0),
        node("Identity", ["on"], "again"),
    ]
    y = w.op("Loop", "n", "", "x", body=body(nodes, {"s": FLOAT}, "longer"))
    model = w.model({"x": (FLOAT, [3, SIZE]), "n": (INT64, [])}, {y: (FLOAT, None)})
    stages: list[DataStage] = []
    patch = pytest.MonkeyPatch()
    with patch.context() as patched:
        make = DataStage.__init__
        patched.setattr(DataStage, "__init__", lambda self, *parts: (stages.append(self), make(self, *parts))[1])
        session = treadle.Session(model)
        given = {"x": X, "n": np.array(5)}
        before = session.run(given)
    bodies = [each for stage in stages for template in stage._templates for each in template._bodies]
    assert bodies
    made = [each.arena_allocations for each in bodies]
    assert any(made)
    session.run(given)
    assert [each.arena_allocations for each in bodies] == made
    session.trim()
    after = session.run(given)
    assert [each.arena_allocations > count for each, count in zip(bodies, made, strict=True) if count] == [True] * sum(
        map(bool, made)
    )
    for name, result in before.items():
        assert result.tobytes() == after[name].tobytes()
