"""The first node whose values part."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from treadle import dtypes
from treadle.compare.engines import compiled, reference
from treadle.compare.search import TOLERANCES, compare, tolerances
from treadle.graph.graph import Graph

X = np.array([-1.0, 2.0, 3.0], np.float32)


def chain(length: int = 6) -> Graph:
    """A graph of `length` nodes n0, n1, ... with values v0, v1, ..., each of which adds one."""
    graph = Graph()
    value = graph.input("x", dtypes.f32, (3,))
    one = graph.constant(np.float32(1).reshape(()), "one")
    for number in range(length):
        made = graph.value(f"v{number}", dtypes.f32, (3,))
        graph.add("add", [value, one], name=f"n{number}", outputs=[made])
        value = made
    graph.outputs = [value]
    return graph


def test_values_of_treadle_agree_with_the_reference() -> None:
    """
    The compiled model, each node by itself: none parts, and all are compared.
    """
    graph = chain()
    wanted = reference(graph, {"x": X})
    found = compare(graph, compiled(graph, ["v5"], {"x": X}), wanted, lambda names: compiled(graph, names, {"x": X}))

    assert [each.value for each in found.values] == [f"v{number}" for number in range(6)]
    assert not found.parts
    assert found.first is None


def test_the_first_node_that_parts_is_found() -> None:
    """
    An engine that is wrong from n2 on: n2 is named, not the output.
    """
    graph = chain()
    wanted = reference(graph, {"x": X})

    def wrong(names: Sequence[str]) -> dict[str, np.ndarray]:
        return {name: wanted[name] + (int(name[1:]) >= 2) for name in names}

    found = compare(graph, wrong(["v5"]), wanted, wrong)

    assert found.parts
    assert found.fused is None
    assert found.first is not None
    assert (found.first.node, found.first.op, found.first.value) == ("n2", "add", "v2")


def test_what_parts_only_where_ops_are_fused_is_found() -> None:
    """
    An engine that is right wherever every value is asked for, and wrong from n3 on if only one is.
    """
    graph = chain()
    wanted = reference(graph, {"x": X})
    asked: list[str] = []

    def fused(names: Sequence[str]) -> dict[str, np.ndarray]:
        if len(names) > 1:
            return {name: wanted[name] for name in names}
        asked.extend(names)
        return {name: wanted[name] + (int(name[1:]) >= 3) for name in names}

    found = compare(graph, fused(["v5"]), wanted, fused)

    assert found.parts
    assert found.fused is not None
    assert found.fused.node == "n3"
    assert found.first == found.fused
    assert len(asked) <= 4  # v5 as users run it, then by halves


def test_values_that_the_other_engine_lacks_are_left_out() -> None:
    """
    Engines name only some values alike.
    """
    graph = chain()
    wanted = {name: reference(graph, {"x": X})[name] for name in ("v1", "v5")}
    found = compare(graph, compiled(graph, ["v5"], {"x": X}), wanted, lambda names: compiled(graph, names, {"x": X}))

    assert [each.value for each in found.values] == ["v1", "v5"]


def test_tolerances_follow_what_a_value_is_computed_from() -> None:
    """
    A cast from f16 to f32 leaves the roundings of f16 in its result; whole numbers have none.
    """
    graph = Graph()
    x = graph.input("x", dtypes.f16, (3,))
    y, z, w = graph.value("y", dtypes.f32, (3,)), graph.value("z", dtypes.f32, (3,)), graph.value("w", dtypes.i64, (3,))
    one = graph.constant(np.float32(1).reshape(()), "one")
    graph.add("cast", [x], {"to": dtypes.f32}, name="cast", outputs=[y])
    graph.add("add", [y, one], name="add", outputs=[z])
    graph.add("cast", [one], {"to": dtypes.i64}, name="whole", outputs=[w])
    found = tolerances(graph)

    assert found["y"] == found["z"] == TOLERANCES["f16"]
    assert found["w"] == TOLERANCES["f32"]
