"""Branches of known shapes as those of the native core."""

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
