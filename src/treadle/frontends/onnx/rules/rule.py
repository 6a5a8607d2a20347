"""What a rule is."""

from collections.abc import Callable, Sequence

from treadle.frontends.onnx.build import Builder
from treadle.frontends.onnx.node import OnnxNode
from treadle.graph.value import Value

Rule = Callable[[OnnxNode, Builder], Value | Sequence[Value] | None]
"""Builds core nodes for an ONNX node and returns its results.

None: the core ops cannot say this; the reference implementation runs it. Raises Fault if the node is wrong.
"""
