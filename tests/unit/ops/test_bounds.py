"""Every integer among the attributes of an op has a bound, which is checked before a rule uses it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.ops.case import graph_of
from tests.ops.suite import CASES

from treadle.dtypes import f32, i64
from treadle.errors import LimitError, ShapeError
from treadle.graph.graph import Graph
from treadle.ops.bounds import BOUNDS, check_bounds, numbers_of
from treadle.ops.evaluate import infer_node
from treadle.ops.op import Info
from treadle.ops.table import OPS

INTEGERS = {
    (case.op, name): case
    for case in CASES
    for name, value in case.attrs.items()
    if any(True for _ in numbers_of(value))
}
"""The op and the name of each attribute with integers -> a case that has it. Every op has cases."""


def with_number(value: Any, number: int) -> Any:
    """`value` with `number` in place of its first integer."""
    if type(value) is int:
        return number
    entries = list(value)
    place = next(place for place, entry in enumerate(entries) if any(True for _ in numbers_of(entry)))
    entries[place] = with_number(entries[place], number)
    return tuple(entries)


OUTSIDE = [
    (op, name, number)
    for op, bounds in BOUNDS.items()
    for name, bound in bounds.items()
    for number in (bound.least - 1, bound.most + 1)
]


def test_every_integer_attribute_has_a_bound() -> None:
    """
    An op without one cannot be added.
    """
    assert sorted(f"{op}.{name}" for op, name in INTEGERS if name not in BOUNDS.get(op, {})) == []
    assert set(BOUNDS) <= set(OPS)


@pytest.mark.parametrize(("op", "name", "number"), OUTSIDE)
def test_numbers_outside_their_bound_are_refused(op: str, name: str, number: int) -> None:
    """
    As too small or too large, by name.
    """
    with pytest.raises((ShapeError, LimitError), match=f"^{name} must be .*got {number}$"):
        check_bounds(op, {name: (1, number)})


def test_rules_do_not_see_such_numbers() -> None:
    """
    The error names the node, whatever its operands are.
    """
    for (op, name), case in INTEGERS.items():
        attrs = {**case.attrs, name: with_number(case.attrs[name], BOUNDS[op][name].most + 1)}
        with pytest.raises(LimitError, match=f"{case.id}.*{name} must be"):
            graph_of(replace(case, attrs=attrs))


def test_results_of_too_many_elements_are_refused_by_every_rule() -> None:
    """
    Before a kernel is chosen for them.
    """
    graph = Graph()
    x, repeats = graph.input("x", f32, (2, 2)), graph.constant(np.array([2**40, 2**21]), "repeats")
    with pytest.raises(LimitError, match="elements; at most"):
        infer_node(graph.add("tile", [x, repeats], {}, name="n"), [Info(f32, (2, 2)), Info(i64, (2,), repeats.data)])
