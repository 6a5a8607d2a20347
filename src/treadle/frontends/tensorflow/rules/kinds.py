"""Annotations for the parameters of rules.

A parameter without one is an attribute, a Python value (DType: an element type).
"""

from treadle.dtypes import DType
from treadle.graph.value import Value

Same = Value
"""A tensor; Python numbers take the dtype that other operands of this kind have."""

Shape = Value
"""A tensor of few integers (a shape, axes, paddings), whose value decides the shape of the result."""

__all__ = ["DType", "Same", "Shape", "Value"]
