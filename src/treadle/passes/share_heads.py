"""Lets attention read heads of keys and values that several heads of queries share where they are."""

from __future__ import annotations

from typing import NamedTuple

from treadle.dtypes import DType
from treadle.graph.dim import equals, is_expression
from treadle.graph.graph import Graph
from treadle.graph.node import Node
from treadle.graph.shape import StaticShape, equal_shapes
from treadle.graph.value import Value
from treadle.passes.base import PassContext
from treadle.passes.match import Edit, Rules, produced_by, sweep


class ShareHeads:
    """%e = expand(%k: [b, 2, 1, t, 8], [b, 2, 4, t, 8]); %r = reshape(%e, [b, 8, t, 8]); %y = attention(%q, %r, ...)
    ->  %y = attention(%q, reshape(%k, [b, 2, t, 8]), ...) repeats=4

    Both keys and values, which may be cast; a transpose of them becomes strides too.
    """

    name = "share_heads"

    def run(self, graph: Graph, context: PassContext) -> bool:
        return sweep(graph, context, _RULES)


def shared(node: Node, edit: Edit) -> list[Value] | None:
    """attention(q, repeated(k), repeated(v)) -> attention(q, k, v) repeats"""
    k, v = (_repeated(node.operand(number)) for number in (1, 2))
    if "repeats" in node.attrs or k is None or v is None or k.times != v.times:
        return None
    if "k_perm" in node.attrs or "v_perm" in node.attrs or not equals(_heads(node), k.shape[-3] * k.times):
        return None
    attrs = {**node.attrs, "repeats": k.times}
    inputs = list(node.inputs)
    for number, (name, found) in enumerate((("k", k), ("v", v)), 1):
        reshape = produced_by(found.value, "reshape")
        source = edit.reshape(found.value if reshape is None else reshape.operand(0), found.shape)
        if source.dtype != found.dtype:
            source = edit.add("cast", [source], {"to": found.dtype})
        transpose = produced_by(source, "transpose")
        perm = None if transpose is None else transpose.attrs["perm"]
        if transpose is not None and perm is not None and len(perm) - 1 in perm[-2:]:
            source, attrs[f"{name}_perm"] = transpose.operand(0), tuple(perm)
        inputs[number] = source
    return edit.again(inputs, attrs)


class _Repeated(NamedTuple):
    """`value`, seen in `shape` and as `dtype`, each head of which stands for so many."""

    value: Value
    dtype: DType
    shape: StaticShape
    times: int


def _repeated(value: Value) -> _Repeated | None:
    """What reshape(expand(x: [.., 2, 1, t, 8], [.., 2, 4, t, 8]), [.., 8, t, 8]) repeats, or a cast of it."""
    cast, dtype = produced_by(value, "cast"), value.known_dtype
    value = value if cast is None else cast.operand(0)
    reshape = produced_by(value, "reshape")
    expand = None if reshape is None else produced_by(reshape.inputs[0], "expand")
    if expand is None or value.shape is None or expand.output.shape is None or expand.operand(0).shape is None:
        return None
    source = expand.operand(0)
    small, large = source.static_shape, expand.output.static_shape
    if len(large) < 4 or len(small) != len(large) or is_expression(large[-3]) or not equals(small[-3], 1):
        return None
    outer, (heads, count), matrices = large[:-4], large[-4:-2], large[-2:]
    if count < 2 or not equal_shapes(small, (*outer, heads, 1, *matrices)):
        return None
    if not equal_shapes(value.shape, (*outer, heads * count, *matrices)):
        return None
    return _Repeated(source, dtype, (*outer, heads, *matrices), count)


def _heads(node: Node) -> int:
    """How many heads the queries have."""
    shape = node.operand(0).static_shape
    perm = node.attrs.get("q_perm") or tuple(range(len(shape)))
    axis: int = perm[-3]
    return shape[axis]


_RULES: Rules = {"attention": (shared,)}
