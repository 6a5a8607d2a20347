"""Questions about shapes that are answered without assumptions."""

from __future__ import annotations

from treadle.graph.facts import Facts
from treadle.graph.shape import certain_broadcast, equal_shapes, may_be_empty, sample_elements


def test_shapes_are_equal_if_they_are_for_every_size() -> None:
    """
    Samples do not count, an unknown shape equals none, and nothing is assumed.
    """
    facts = Facts()
    b, n = facts.symbol("b", 4), facts.symbol("n", 4)

    assert equal_shapes((b, n + n), (b, 2 * n))
    assert equal_shapes(("batch", 3), ("batch", 3))
    assert equal_shapes((), ())
    assert not equal_shapes((b, n), (n, b))
    assert not equal_shapes((b, 4), (4, 4))
    assert not equal_shapes((b,), (b, 1))
    assert not equal_shapes(("batch",), ("time",))
    assert not equal_shapes(("batch",), (b,))
    assert not equal_shapes(None, None)
    assert facts.guards == []


def test_a_broadcast_is_certain_if_it_is_for_every_size() -> None:
    """
    An axis that is known to be 1 follows any other; two open ones must be the same.
    """
    facts = Facts()
    b, n = facts.symbol("b", 4), facts.symbol("n", 4)

    assert certain_broadcast((b, 1, n), (3, 1), (1, 1, 1)) == (b, 3, n)
    assert certain_broadcast((2, 3), (3,)) == (2, 3)
    assert certain_broadcast() == ()
    assert certain_broadcast((b,), (n,)) is None
    assert certain_broadcast((b,), (4,)) is None
    assert certain_broadcast((2,), (3,)) is None
    assert facts.guards == []


def test_a_shape_may_be_empty_unless_bounds_exclude_it() -> None:
    facts = Facts()
    b, past = facts.symbol("b", 4), facts.symbol("past", 4, least=0)

    assert not may_be_empty((b, 3, past + 1))
    assert may_be_empty((b, past))
    assert may_be_empty((3, 0))
    assert not may_be_empty(())


def test_samples_are_multiplied() -> None:
    facts = Facts()

    assert sample_elements((facts.symbol("b", 4), 3, facts.symbol("n", 5) + 1)) == 72
    assert sample_elements(()) == 1
    assert facts.guards == []
