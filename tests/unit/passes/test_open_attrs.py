"""Attributes with expressions, for NumPy references."""

from treadle.graph.facts import Facts
from treadle.passes.lower.open_attrs import sizes_in, with_numbers


def test_numbers_take_the_place_of_expressions() -> None:
    facts = Facts()
    n = facts.symbol("n", 61)
    attrs = {"axis": 1, "shape": (2, n + 1, (n, 7)), "name": "x", "depth": 3 * n}

    assert [str(size) for size in sizes_in(attrs)] == ["n + 1", "n", "3*n"]
    assert with_numbers(attrs, [11, 10, 30]) == {"axis": 1, "shape": (2, 11, (10, 7)), "name": "x", "depth": 30}


def test_attributes_without_expressions_stay_the_same_object() -> None:
    attrs = {"axis": 1, "shape": [2, 3]}

    assert sizes_in(attrs) == ()
    assert with_numbers(attrs, ()) is attrs
