"""Branches and loops of known shapes as those of the native core."""

from __future__ import annotations

from collections.abc import Sequence

from treadle import dtypes
from treadle.dtypes import DType
from treadle.frontends.core_bodies import needs_python, same_forms
from treadle.graph.graph import Graph
from treadle.graph.value import Value


def decides(predicate: Value) -> bool:
    """Return whether the core takes a side by this value: a bool scalar. TensorFlow takes other values too."""
    return (predicate.dtype, predicate.shape) == (dtypes.boolean, ())


def agree(yes: Graph, no: Graph, wanted: Sequence[DType]) -> bool:
    """Return whether two sides give results of the same known shapes, and of the wanted dtypes, without Python."""
    if not same_forms(yes.outputs, no.outputs) or [value.dtype for value in yes.outputs] != list(wanted):
        return False
    return not (needs_python(yes) or needs_python(no))


def places_of(slots: Sequence[int | None]) -> tuple[list[int], list[int]]:
    """Return the places of variables that change, in the order of their slots, and those of the others."""
    changed = sorted((slot, place) for place, slot in enumerate(slots) if slot is not None)
    return [place for _, place in changed], [place for place, slot in enumerate(slots) if slot is None]


def carries(step: Graph, values: Sequence[Value]) -> bool:
    """Return whether `step` gives the next of these values, of the same dtypes and shapes, then one bool.

    Nothing in it may need Python.
    """
    *after, again = step.outputs
    return bool(values) and decides(again) and same_forms(values, after) and not needs_python(step)


def loop_body(step: Graph, carried: Sequence[int], captured: Sequence[int]) -> Graph:
    """Return `step` as the body of a core loop; the two lists say which of its inputs are what."""
    iteration = Value(step.unique_name("iteration"), dtypes.i64, ())
    step.inputs = [iteration, *(step.inputs[place] for place in (*carried, *captured))]
    step.outputs = [step.outputs[-1], *step.outputs[:-1]]
    return step
