"""What nodes declare of their results: element types, and the values of constants."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from treadle.dtypes import DType, string
from treadle.frontends.faults import Fault
from treadle.frontends.tensorflow.node import Node
from treadle.frontends.tensorflow.nodes import rule_of
from treadle.graph.value import Value
from treadle.ops.op import Array


def constant_array(node: Node) -> Array:
    """Return the value of a Const. Raises Fault if it has none."""
    array = node.attr("value")
    if not isinstance(array, np.ndarray):
        raise Fault("it has no value")
    return array


def declared_dtype(node: Node, index: int) -> DType:
    """Return the element type of result `index` according to the attributes of `node`."""
    rule = rule_of(node.op)
    if rule is not None:
        return rule.dtype_of(node, index)
    if node.op in ("Placeholder", "PlaceholderV2", "Const"):
        found = node.attr("dtype")
        if not isinstance(found, DType):
            raise Fault("it does not state its element type")
        return found
    return result_dtypes(node, index + 1, ())[index]


def result_dtypes(node: Node, count: int, values: Sequence[Value]) -> list[DType]:
    """Return the element types of the results of a branch or loop: those in its attributes, else those of `values`.

    Raises Fault if neither is available.
    """
    declared = node.attr("Tout", node.attr("T", None))
    if isinstance(declared, list) and len(declared) >= count and all(isinstance(item, DType) for item in declared):
        declared = declared[:count]
        if len(values) == count:  # a variable is declared as a handle, and passed as its value
            pairs = zip(declared, values, strict=True)
            declared = [value.known_dtype if dtype is string else dtype for dtype, value in pairs]
        return declared
    if isinstance(declared, DType):
        return [declared] * count
    if len(values) == count:
        return [value.known_dtype for value in values]
    raise Fault(f"it does not state the element types of its {count} results")
