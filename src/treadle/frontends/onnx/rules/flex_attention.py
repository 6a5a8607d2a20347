"""FlexAttention of ai.onnx.preview: what stands before and behind the graphs that change its scores and weights."""

from __future__ import annotations

from treadle import dtypes
from treadle.dtypes import DType
from treadle.frontends.faults import Fault
from treadle.frontends.onnx.build import Builder
from treadle.frontends.onnx.node import OnnxNode
from treadle.frontends.onnx.rules.attention import repeated, scale_of
from treadle.frontends.onnx.types import DTYPES
from treadle.graph.value import Value

DOMAIN = "ai.onnx.preview"


def precision(node: OnnxNode) -> DType | None:
    """The dtype of scores and weights; None if core ops do not compute in it."""
    given = node.dtype()
    stated = DTYPES.get(node.integer("softmax_precision", 0), dtypes.f64 if given == dtypes.f64 else dtypes.f32)
    return stated if stated in (dtypes.f16, dtypes.f32, dtypes.f64) and given != dtypes.bf16 else None


def scores(node: OnnxNode, b: Builder) -> Value | None:
    """scale q k^T [N, heads, queries, keys]; None if the numbers of heads are not known, or for `precision` of None."""
    groups, to = _groups(node), precision(node)
    if groups is None or to is None or any(node.rank(index) != 4 for index in range(3)) or node.dtype() is None:
        return None
    found = b.add("matmul", node.input(0), repeated(node.input(1), groups, b), transpose_a=False, transpose_b=True)
    return b.cast(b.add("mul", found, scale_of(node, node.input(0), b)), to)


def mixed(node: OnnxNode, weights: Value, b: Builder) -> Value:
    """weights v [N, heads, queries, size], for the heads of `scores`."""
    v, groups = node.input(2), _groups(node)
    assert groups is not None, "there are scores"
    values = repeated(b.cast(v, weights.dtype), groups, b)
    return b.cast(b.add("matmul", weights, values, transpose_a=False, transpose_b=False), v.dtype)


def _groups(node: OnnxNode) -> int | None:
    """How many heads of queries share one of keys and values; None if it is not known."""
    found = [None if dims is None or len(dims) != 4 else dims[1] for dims in map(node.dims, range(2))]
    heads, shared = found
    if heads is None or shared is None:
        return None
    if not shared or heads % shared:
        raise Fault(f"its query must have a multiple of the {shared} heads of its key, got {heads}")
    return heads // shared
