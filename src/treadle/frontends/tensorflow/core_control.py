"""Branches of known shapes as those of the native core."""

from __future__ import annotations

from collections.abc import Sequence

from treadle import dtypes
from treadle.dtypes import DType
from treadle.frontends.core_bodies import needs_python, same_forms
from treadle.graph.graph import Graph
from treadle.graph.shape import are_numbers
from treadle.graph.value import Value


def decides(predicate: Value) -> bool:
    """Return whether the core takes a side by this value: a bool scalar. TensorFlow takes other values too."""
    return (predicate.dtype, predicate.shape) == (dtypes.boolean, ())


def has_numbers(values: Sequence[Value]) -> bool:
    """Return whether the shapes of `values` are numbers."""
    return all(value.shape is not None and are_numbers(value.static_shape) for value in values)


def may_be_core(yes: Graph, no: Graph, wanted: Sequence[DType]) -> bool:
    """Return whether the native core can run a branch with these sides, of results of the wanted dtypes.

    Their sizes may differ, but not their ranks, if these are known.
    """
    pairs = list(zip(yes.outputs, no.outputs, strict=True))
    if needs_python(yes) or needs_python(no) or [(a.dtype, b.dtype) for a, b in pairs] != [(d, d) for d in wanted]:
        return False
    ranks = [tuple(None if value.shape is None else len(value.shape) for value in pair) for pair in pairs]
    return all(None in pair or pair[0] == pair[1] for pair in ranks)


def agree(yes: Graph, no: Graph, wanted: Sequence[DType]) -> bool:
    """Return whether two sides give results of the same known shapes, and of the wanted dtypes, without Python."""
    if not same_forms(yes.outputs, no.outputs) or [value.dtype for value in yes.outputs] != list(wanted):
        return False
    return not (needs_python(yes) or needs_python(no))
