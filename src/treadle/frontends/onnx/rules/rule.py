"""The type of rules."""

from collections.abc import Callable, Sequence

from treadle.frontends.onnx.build import Builder
from treadle.frontends.onnx.node import OnnxNode
from treadle.graph.value import Value

Rule = Callable[[OnnxNode, Builder], Value | Sequence[Value | None] | None]
"""Builds core nodes for an ONNX node and returns its results.

Returns None if core ops cannot express the node; the reference implementation then runs it. Raises Fault if the node
is invalid.
"""
