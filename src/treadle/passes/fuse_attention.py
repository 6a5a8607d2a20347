"""Joins the two products of attention and the softmax between them."""

from __future__ import annotations

from treadle import dtypes
from treadle.graph.dim import ceil_div, equals, hint_of, is_expression
from treadle.graph.graph import Graph
from treadle.graph.node import Node
from treadle.graph.shape import StaticShape, equal_shapes, normalize_axis
from treadle.graph.value import Value
from treadle.passes.base import PassContext
from treadle.passes.lower.attention_mask import can_hide
from treadle.passes.match import Edit, Rules, join_names, number, produced_by, sweep

_MOST_PADDING = 1.5
"""Queries are padded to whole vectors; by more than this factor, products of their own are faster."""

_MOST_SCRATCH = 4 << 20
"""Bytes that the scores of one vector of queries may fill."""


class FuseAttention:
    """%s = matmul(%q, %k) epilogue; %p = softmax(%s); %y = matmul(%p, %v)  ->  %y = attention(%q, %k, %v) epilogue

    Also %p = slice(softmax(concat(%s, %sink)), [0], [-1]), whose last key takes weight from the others.
    %v = where(%m, %x, 0) unseen is %x where the mask hides keys: what no query sees is not read.

    After epilogues: scale and mask are in the first product's epilogue by then. Only where nothing else reads scores
    or weights, and under fast math: weights are divided by their sum after the second product. Values of an open width,
    as where channels attend to channels, stay: the code of the kernel depends on the width.
    """

    name = "fuse_attention"

    def run(self, graph: Graph, context: PassContext) -> bool:
        if context.math != "fast":
            return False
        lanes = context.target.lanes(dtypes.f32)

        def weighted(node: Node, edit: Edit) -> Value | None:
            return _attention(node, edit, lanes)

        rules: Rules = {"matmul": (weighted,)}
        return sweep(graph, context, rules)


def _attention(node: Node, edit: Edit, lanes: int) -> Value | None:
    """matmul(softmax(matmul(q, k)), v) -> attention(q, k, v)"""
    found = _weights(node.inputs[0])
    if found is None or node.output.dtype != dtypes.f32:
        return None
    scores, softmax, sink = found
    between = [scores.output, softmax.operand(0), softmax.output, node.operand(0)]
    if not all(map(edit.graph.has_one_use, between)):
        return None
    hides = can_hide(scores.attrs.get("epilogue"))
    seen = _seen_values(node.operand(1)) if hides else node.operand(1)
    if not _are_plain(scores, softmax, node) or not _fits(scores.output.static_shape, lanes):
        return None
    if seen is node.inputs[1] and not _pays(scores.output.static_shape, lanes):
        return None
    rank = len(softmax.output.static_shape)
    order = operand_perm(node, "b", rank, swapped=False)
    if is_expression(seen.static_shape[rank - 1 if order is None else order[-1]]):
        return None
    attrs = {
        "q_perm": operand_perm(scores, "a", rank, swapped=False),
        "k_perm": operand_perm(scores, "b", rank, swapped=True),
        "v_perm": order,
        "out_perm": node.attrs.get("out_perm"),
        "epilogue": scores.attrs.get("epilogue"),
        "safe": softmax.attrs.get("safe"),
        "sink": None if sink is None else True,
    }
    attrs = {name: value for name, value in attrs.items() if value is not None}
    operands = [*scores.inputs[:2], seen, *scores.inputs[2:], *([] if sink is None else [sink])]
    return edit.add("attention", operands, attrs, name=join_names([scores, softmax, node]))


def _weights(value: Value | None) -> tuple[Node, Node, Value | None] | None:
    """The product and the softmax that make weights, and the sink that takes a part of them."""
    softmax = produced_by(value, "softmax")
    if softmax is not None:
        scores = produced_by(softmax.inputs[0], "matmul")
        return None if scores is None else (scores, softmax, None)
    cut = produced_by(value, "slice")
    softmax = None if cut is None else produced_by(cut.inputs[0], "softmax")
    joined = None if softmax is None else produced_by(softmax.inputs[0], "concat")
    scores = None if joined is None else produced_by(joined.inputs[0], "matmul")
    if cut is None or softmax is None or joined is None or scores is None or len(joined.inputs) != 2:
        return None
    rank, sink = len(softmax.output.static_shape), joined.operand(1)
    if normalize_axis(joined.attrs["axis"], rank) != rank - 1 or not equals(sink.static_shape[-1], 1):
        return None
    if not equal_shapes(cut.output.shape, scores.output.static_shape) or number(cut.operand(1)) != 0:
        return None
    expand = produced_by(sink, "expand")
    sink = sink if expand is None else expand.operand(0)
    shape = sink.static_shape
    if len(shape) > 1 and not equals(shape[-2], 1):
        return None
    return scores, softmax, sink


def _seen_values(value: Value) -> Value:
    """What `value` is where a query sees it."""
    node = produced_by(value, "where")
    return node.operand(1) if node is not None and node.attrs.get("unseen") else value


def _are_plain(scores: Node, softmax: Node, product: Node) -> bool:
    """Whether the weights are multiplied as they are, all operands being matrices with as many batch axes."""
    rank = len(softmax.output.static_shape)
    if normalize_axis(softmax.attrs["axis"], rank) != rank - 1 or scores.attrs.get("out_perm") is not None:
        return False
    if any(product.attrs.get(name) for name in ("epilogue", "a_perm", "transpose_a")):
        return False
    operands = (scores.operand(0), scores.operand(1), product.operand(1))
    return rank >= 2 and all(len(value.static_shape) == rank for value in operands)


def _pays(scores: StaticShape, lanes: int) -> bool:
    """Whether queries fill their vectors well enough, for the sample sizes."""
    queries = int(hint_of(scores[-2]))
    return ceil_div(queries, lanes) * lanes <= _MOST_PADDING * queries


def _fits(scores: StaticShape, lanes: int) -> bool:
    """Whether there are keys, and the scores of one vector of queries fit the scratch, for the sample sizes."""
    return int(hint_of(scores[-1])) * lanes * 4 <= _MOST_SCRATCH and scores[-1] > 0


def operand_perm(matmul: Node, side: str, rank: int, *, swapped: bool) -> tuple[int, ...] | None:
    """The permutation of an operand, its last two axes `swapped` beyond what the product does; None for none."""
    plain = tuple(range(rank))
    perm = tuple(matmul.attrs.get(f"{side}_perm") or plain)
    if bool(matmul.attrs.get(f"transpose_{side}")) != swapped:
        perm = (*perm[:-2], perm[-1], perm[-2])
    return None if perm == plain else perm
