"""Kernels of ops whose operands have open sizes: lowered once, run for many sizes."""

from typing import Any

import numpy as np
import pytest
from tests.kernel_runner import run_calls
from tests.open_sizes import OpenSizes
from tests.single_node import to_logical, to_physical

from treadle import dtypes
from treadle.codegen.target import detect
from treadle.graph.facts import Facts
from treadle.graph.graph import Graph
from treadle.graph.guard import evaluate
from treadle.graph.layout import Blocked
from treadle.ops.table import OPS
from treadle.passes.choose_kernels import choose_kernels
from treadle.passes.lower.base import LowerContext
from treadle.passes.lower.searches import FUNCTIONS
from treadle.plan.bound import bound_call

SIZES = [(5, 7), (64, 3), (33, 130)]


def _operands(op: str, n: int, m: int) -> list[np.ndarray]:
    rng = np.random.default_rng(n)
    x = rng.standard_normal((n, m)).astype(np.float32)
    updates = rng.standard_normal((n, m)).astype(np.float32)
    return {
        "cumsum": [x],
        "logcumsumexp": [x],
        "search_sorted": [np.sort(x), updates],
        "trilu": [x],
        "argmax": [x],
        "one_hot": [rng.integers(0, m, (n, m)), np.array(9), np.array([-1, 1], np.float32)],
        "scatter_elements": [x, rng.permuted(np.tile(np.arange(m), (n, 1)), axis=1), updates],
        "scatter_nd": [x, rng.permutation(n)[:, None], updates],
        "reverse_sequence": [x, rng.integers(1, n + 1, m)],
    }[op]


ATTRS: dict[str, dict[str, Any]] = {
    "cumsum": {"axis": 0, "exclusive": False, "reverse": True},
    "logcumsumexp": {"axis": 1, "exclusive": True, "reverse": False},
    "search_sorted": {"right": True},
    "trilu": {"upper": True},
    "argmax": {"axis": 1, "keepdims": False, "last": False},
    "one_hot": {"axis": -1},
    "scatter_elements": {"axis": 1, "reduction": "none"},
    "scatter_nd": {"reduction": "none"},
    "reverse_sequence": {"time_axis": 0, "batch_axis": 1},
}


def _graph(op: str) -> Graph:
    """A graph of the op whose operands have open sizes n and m; operands without them are constants."""
    graph = Graph(op)
    operands = []
    for index, (array, other) in enumerate(zip(_operands(op, 61, 79), _operands(op, 62, 83), strict=True)):
        names = {61: "n", 79: "m"}
        if array.shape == other.shape:
            operands.append(graph.constant(array))
        else:
            shape = tuple(names.get(dim, dim) for dim in array.shape)
            operands.append(graph.input(f"x{index}", dtypes.from_numpy(array.dtype), shape))
    graph.outputs = [graph.add(op, operands, ATTRS[op], name=op).output]
    return graph


@pytest.mark.parametrize("op", ATTRS)
def test_one_lowering_serves_many_sizes(op: str) -> None:
    """
    Larger and smaller sizes than the samples, without a Python call.
    """
    assert "python" not in OpenSizes(_graph(op)).families
    for n, m in SIZES:
        arrays = _operands(op, n, m)
        graph = _graph(op)
        given = {value.name: arrays[int(value.name[1:])] for value in graph.inputs}
        wanted = OPS[op].evaluate(ATTRS[op], arrays)[0]
        np.testing.assert_allclose(OpenSizes(graph).run(given, n=n, m=m)[0], wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["to blocked", "to plain", "pick channels"])
@pytest.mark.parametrize(
    "sizes", [{"n": 1, "h": 5, "w": 7}, {"n": 3, "h": 1, "w": 1}, {"n": 2, "h": 33, "w": 18}], ids=str
)
def test_blocked_images_of_open_sizes(kind: str, sizes: dict[str, int]) -> None:
    """
    Channels that do not fill a block; nothing is assumed.
    """
    target, facts, graph = detect(), Facts(), Graph(kind)
    layout = Blocked(target.lanes(dtypes.f32))
    n, h, w = (facts.symbol(name, 61 + number) for number, name in enumerate("nhw"))
    x = graph.input("x", dtypes.f32, (n, 20, h, w))
    x.layout = None if kind == "to blocked" else layout
    picks = tuple((0, 7 * channel % 20) for channel in range(18))
    if kind == "pick channels":
        y, channels = graph.add("pick_channels", [x], {"picks": picks}, name="y").output, [at for _, at in picks]
    else:
        y, channels = graph.add("reorder", [x], {}, name="y").output, list(range(20))
    y.dtype, y.shape, y.layout = dtypes.f32, (n, len(channels), h, w), None if kind == "to plain" else layout
    graph.outputs = [y]

    calls = [bound_call(call, sizes, FUNCTIONS) for call in choose_kernels(graph, target, "fast").calls]
    for value in (x, y):
        value.shape = tuple(evaluate(dim, sizes, FUNCTIONS) for dim in value.static_shape)
    array = np.random.default_rng(0).standard_normal(x.static_shape).astype(np.float32)
    given = {"x": to_physical(array, x.layout)}
    found = run_calls(graph, calls, LowerContext(graph, target), given, target=target)[y.name]

    assert facts.guards == []
    np.testing.assert_array_equal(to_logical(found, y.static_shape, y.layout), array[:, channels])
