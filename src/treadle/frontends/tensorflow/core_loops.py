"""Loops whose shapes are known as loops of the native core."""

from __future__ import annotations

from collections.abc import Sequence

from treadle import dtypes
from treadle.graph.graph import Graph, all_nodes
from treadle.graph.value import Value


def places_of(slots: Sequence[int | None]) -> tuple[list[int], list[int]]:
    """Return the places of variables that change, in the order of their slots, and those of the others."""
    changed = sorted((slot, place) for place, slot in enumerate(slots) if slot is not None)
    return [place for _, place in changed], [place for place, slot in enumerate(slots) if slot is None]


def carries(step: Graph, values: Sequence[Value]) -> bool:
    """Return whether `step` gives the next of these values, of the same dtypes and shapes, then one bool.

    Nothing in it may run as Python: such nodes have effects, or are compiled in the run.
    """
    *after, again = step.outputs
    if (again.dtype, again.shape) != (dtypes.boolean, ()) or any(node.op == "call" for node in all_nodes(step)):
        return False
    same = ((one.dtype, one.shape) == (other.dtype, other.shape) for one, other in zip(values, after, strict=True))
    return bool(values) and all(same) and all(value.dtype is not dtypes.string for value in step.inputs)


def loop_body(step: Graph, carried: Sequence[int], captured: Sequence[int]) -> Graph:
    """Return `step` as the body of a core loop; the two lists say which of its inputs are what."""
    iteration = Value(step.unique_name("iteration"), dtypes.i64, ())
    step.inputs = [iteration, *(step.inputs[place] for place in (*carried, *captured))]
    step.outputs = [step.outputs[-1], *step.outputs[:-1]]
    return step
