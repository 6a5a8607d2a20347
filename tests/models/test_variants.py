"""Variants of a step: binding takes the cheapest one for the sizes, and only that one runs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from onnx import helper, numpy_helper

import treadle
from tests.native_sizes import native_sizes
from treadle.cli.commands.inspect import inspect
from treadle.graph.facts import Facts
from treadle.graph.guard import evaluate
from treadle.graph.node import Node
from treadle.passes.lower import searches, table
from treadle.passes.lower.base import LowerContext
from treadle.passes.lower.matmul import lower_matmul
from treadle.passes.lower.variants import Way, cheapest
from treadle.plan.call import Call

WEIGHTS = np.random.default_rng(0).standard_normal((24, 40)).astype(np.float32)


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> bytes:
    """y = relu(x @ weights) of an open number of rows, whose product has three variants."""

    def lower(node: Node, ctx: LowerContext) -> list[Call]:
        rows = node.output.static_shape[0]
        costs = {"few": rows * 100.0, "some": 1000.0 + rows * 50.0, "many": 4000.0 + rows * 10.0}
        return cheapest([Way(name, lower_matmul(node, ctx) or (), cost) for name, cost in costs.items()])

    monkeypatch.setitem(table.LOWERINGS, "matmul", lower)
    monkeypatch.setenv("TREADLE_DEBUG", "1")
    monkeypatch.setenv("TREADLE_DISABLE", "fuse_epilogue")
    nodes = [
        helper.make_node("MatMul", ["x", "weights"], ["product"], name="product"),
        helper.make_node("Relu", ["product"], ["y"], name="relu"),
    ]
    declared = (helper.make_tensor_value_info(name, 1, ["n", size]) for name, size in (("x", 24), ("y", 40)))
    inputs, outputs = ([each] for each in declared)
    graph = helper.make_graph(nodes, "g", inputs, outputs, [numpy_helper.from_array(WEIGHTS, "weights")])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(made.SerializeToString())


def wanted(rows: int) -> str:
    return "few" if rows <= 20 else "some" if rows <= 75 else "many"


def test_each_size_takes_the_cheapest_way() -> None:
    facts = Facts()
    n = facts.symbol("n", 10)
    costs = [7.0 * n, 30.0 + 4.0 * n, 90.0 + n, 91.0 + n]
    names = list("abcd")
    calls = cheapest(
        [Way(name, [Call(name, "op", (), (), cost=1.0)], cost) for name, cost in zip(names, costs, strict=True)]
    )
    for size in range(1, 60):
        numbers = [evaluate(cost, {"n": size}) for cost in costs]
        best = names[numbers.index(min(numbers))]
        assert [call.node for call in calls if evaluate(call.chunks, {"n": size}, searches.FUNCTIONS)] == [best]
        assert native_sizes([n], [call.chunks for call in calls], [size]) == [int(name == best) for name in names]
        assert sum(evaluate(call.cost, {"n": size}, searches.FUNCTIONS) for call in calls) == 1.0


def test_known_costs_leave_one_way() -> None:
    ways = [Way(name, [Call(name, "op", (), ())], cost) for name, cost in (("a", 2.0), ("b", 1.0), ("c", 1.0))]
    (call,) = cheapest(ways)
    assert (call.node, call.variant) == ("b", None)


def test_one_plan_runs_the_variant_of_each_size(model: bytes) -> None:
    session = treadle.Session(model)
    for rows in (1, 20, 21, 75, 76, 400):
        x = np.random.default_rng(rows).standard_normal((rows, 24)).astype(np.float32)
        results = [session.run({"x": x}, intra_op=threads, inter_op=threads)["y"] for threads in (1, 2)]
        np.testing.assert_allclose(results[0], np.maximum(x @ WEIGHTS, 0), rtol=1e-4, atol=1e-4)
        assert results[0].tobytes() == results[1].tobytes()
        (plan,) = session.plans_for({"x": x})
        running = [call for call in plan.calls if call.variant is not None and call.chunks]
        assert [call.variant and call.variant.name for call in running] == [wanted(rows)]
        assert all(call.cost == 0 for call in plan.calls if call.variant is not None and not call.chunks)
    assert session.compiles == 1


def test_inspect_prints_the_sizes_of_each_variant(model: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(model)
    printed = CliRunner().invoke(inspect, [str(path)], catch_exceptions=False).output
    assert "1-16 few, 32-64 some, 128-8192 many" in printed
    report = json.loads(CliRunner().invoke(inspect, [str(path), "--json"], catch_exceptions=False).output)
    assert report["open_plans"][0]["variants"] == [
        {"node": "product", "ranges": {"n": [[1, 16, "few"], [32, 64, "some"], [128, 8192, "many"]]}}
    ]
    bound = json.loads(
        CliRunner().invoke(inspect, [str(path), "--json", "--dim", "n=50"], catch_exceptions=False).output
    )
    assert [step["variant"] for step in bound["steps"] if step["node"] == "product"] == ["some"]
