"""The memory of a template is placed when it is bound, also if only arguments of kernels depend on sizes."""

from __future__ import annotations

import numpy as np

from treadle import _native, dtypes
from treadle.codegen.target import detect
from treadle.compiled_plans import Open
from treadle.driver import Options, compile_open
from treadle.graph.graph import Graph
from treadle.graph.reals import bits_of_number


def test_values_of_known_shapes_do_not_overlap() -> None:
    """Two sums read the same four numbers: the first one must not lie where the second one reads."""
    names = tuple(f"number{index}" for index in range(4))
    graph = Graph("sums")
    numbers = graph.add("sizes", [], {"elements": names, "shape": (4,), "dtype": dtypes.f32}, name="numbers").output
    first = graph.add("reduce_sum", [numbers], {"axes": (0,), "keepdims": True}, name="first").output
    second = graph.add("reduce_sum", [numbers], {"axes": None, "keepdims": False}, name="second").output
    graph.outputs = [
        graph.add("tanh", [first], {}, name="bounded").output,
        graph.add("floor", [second], {}, name="whole").output,
    ]
    plan = compile_open(graph, Options(target=detect()), [value.name for value in graph.outputs], {})
    assert isinstance(plan, Open)
    given = [-1.5, 2.75, 2.75, 2.75]
    bound = plan.bind({name: bits_of_number(number) for name, number in zip(names, given, strict=True)})
    assert bound is not None
    _, whole = bound.run([], _native.Team("test", 1, 1))
    assert whole == np.float32(6)
