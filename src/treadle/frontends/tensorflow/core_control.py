"""Branches and loops of known shapes as those of the native core."""

from __future__ import annotations

from collections.abc import Sequence

from treadle import dtypes
from treadle.dtypes import DType
from treadle.graph.graph import Graph, all_nodes
from treadle.graph.value import Value


def decides(predicate: Value) -> bool:
    """Return whether the core takes a side by this value: a bool scalar. TensorFlow takes other values too."""
    return (predicate.dtype, predicate.shape) == (dtypes.boolean, ())


def agree(yes: Graph, no: Graph, wanted: Sequence[DType]) -> bool:
    """Return whether two sides give results of the same known shapes, and of the wanted dtypes, without Python."""
    forms, others = ([(value.dtype, value.shape) for value in side.outputs] for side in (yes, no))
    if forms != others or [dtype for dtype, _ in forms] != list(wanted) or dtypes.string in wanted:
        return False
    return all(shape is not None for _, shape in forms) and not (_needs_python(yes) or _needs_python(no))


def places_of(slots: Sequence[int | None]) -> tuple[list[int], list[int]]:
    """Return the places of variables that change, in the order of their slots, and those of the others."""
    changed = sorted((slot, place) for place, slot in enumerate(slots) if slot is not None)
    return [place for _, place in changed], [place for place, slot in enumerate(slots) if slot is None]


def carries(step: Graph, values: Sequence[Value]) -> bool:
    """Return whether `step` gives the next of these values, of the same dtypes and shapes, then one bool.

    Nothing in it may need Python.
    """
    *after, again = step.outputs
    if not decides(again) or _needs_python(step):
        return False
    same = ((one.dtype, one.shape) == (other.dtype, other.shape) for one, other in zip(values, after, strict=True))
    return bool(values) and all(same)


def loop_body(step: Graph, carried: Sequence[int], captured: Sequence[int]) -> Graph:
    """Return `step` as the body of a core loop; the two lists say which of its inputs are what."""
    iteration = Value(step.unique_name("iteration"), dtypes.i64, ())
    step.inputs = [iteration, *(step.inputs[place] for place in (*carried, *captured))]
    step.outputs = [step.outputs[-1], *step.outputs[:-1]]
    return step


def _needs_python(graph: Graph) -> bool:
    """Return whether a node runs as Python: it has effects, takes strings, or is compiled in the run."""
    strings = any(value.dtype is dtypes.string for value in graph.inputs)
    return strings or any(node.op == "call" for node in all_nodes(graph))
