"""Several ways to compute a node, of which binding takes the one whose estimated time is the least."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from treadle.graph.dim import computed, is_expression, minimum
from treadle.plan.call import Call, Variant
from treadle.records import dataclass


@dataclass(frozen=True, slots=True)
class Way:
    """A way to compute a node: its name, its calls, and what they cost in ns."""

    name: str
    calls: Sequence[Call]
    cost: float


def cheapest(ways: Sequence[Way]) -> list[Call]:
    """Returns the calls of all `ways` that are the cheapest for some sizes; of equals the first one is taken.

    For any sizes the calls of all ways but one have no chunks and cost nothing. Where costs are numbers, only the calls
    of the cheapest way are returned.
    """
    if not any(is_expression(way.cost) for way in ways):
        return list(min(ways, key=lambda way: way.cost).calls)
    left: int = 1
    calls: list[Call] = []
    for number, way in enumerate(ways):
        taken = left
        for other in ways[number + 1 :]:
            taken = taken * (1 - _is_less(other.cost, way.cost))
        calls += [_if_taken(call, way.name, taken) for call in way.calls]
        left = left - taken
    return calls


def _is_less(left: float, right: float) -> int:
    """Returns 1 where `left` < `right`, else 0."""
    return minimum(computed("less", lambda one, other: int(one < other), (left, right), least=0), 1)


def _if_taken(call: Call, name: str, taken: int) -> Call:
    return replace(call, chunks=call.chunks * taken, cost=call.cost * taken, variant=Variant(name, taken))
