"""Cast and CastLike."""

from treadle import dtypes
from treadle.dtypes import DType
from treadle.frontends.onnx.build import Builder
from treadle.frontends.onnx.node import OnnxNode
from treadle.frontends.onnx.types import DTYPES
from treadle.graph.value import Value


def cast(node: OnnxNode, b: Builder) -> Value | None:
    """Cast -> cast. Strings and unsupported element types are left to the reference."""
    return _cast(node.input(0), DTYPES.get(node.integer("to", 0)), b)


def cast_like(node: OnnxNode, b: Builder) -> Value | None:
    """CastLike(x, y) -> cast of x to the element type of y."""
    return _cast(node.input(0), node.dtype(1), b)


def _cast(x: Value, to: DType | None, b: Builder) -> Value | None:
    if to is None or x.dtype is None or dtypes.string in (to, x.dtype):
        return None
    return b.cast(x, to)
