"""Joins the two products of attention and the softmax between them."""

from __future__ import annotations

from treadle import dtypes
from treadle.graph.dim import ceil_div, hint_of
from treadle.graph.graph import Graph
from treadle.graph.node import Node
from treadle.graph.shape import StaticShape, normalize_axis
from treadle.graph.value import Value
from treadle.passes.base import PassContext
from treadle.passes.match import Edit, Rules, join_names, produced_by, sweep

_MOST_PADDING = 1.5
"""Queries are padded to whole vectors; by more than this factor, products of their own are faster."""

_MOST_SCRATCH = 4 << 20
"""Bytes that the scores of one vector of queries may fill."""


class FuseAttention:
    """%s = matmul(%q, %k) epilogue; %p = softmax(%s); %y = matmul(%p, %v)  ->  %y = attention(%q, %k, %v) epilogue

    After epilogues: scale and mask are in the first product's epilogue by then. Only where nothing else reads scores
    or weights, and under fast math: weights are divided by their sum after the second product.
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
    softmax = produced_by(node.inputs[0], "softmax")
    scores = None if softmax is None else produced_by(softmax.inputs[0], "matmul")
    if softmax is None or scores is None or node.output.dtype != dtypes.f32:
        return None
    if not edit.graph.has_one_use(softmax.output) or not edit.graph.has_one_use(scores.output):
        return None
    if not _are_plain(scores, softmax, node) or not _pays(softmax.output.static_shape, lanes):
        return None
    rank = len(softmax.output.static_shape)
    attrs = {
        "q_perm": operand_perm(scores, "a", rank, swapped=False),
        "k_perm": operand_perm(scores, "b", rank, swapped=True),
        "v_perm": operand_perm(node, "b", rank, swapped=False),
        "out_perm": node.attrs.get("out_perm"),
        "epilogue": scores.attrs.get("epilogue"),
        "safe": softmax.attrs.get("safe"),
    }
    attrs = {name: value for name, value in attrs.items() if value is not None}
    operands = [*scores.inputs[:2], node.inputs[1], *scores.inputs[2:]]
    return edit.add("attention", operands, attrs, name=join_names([scores, softmax, node]))


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
    """Whether queries fill their vectors, and the scores of one vector of them the scratch, well enough, for the sample
    sizes."""
    queries, keys = (int(hint_of(dim)) for dim in scores[-2:])
    padded = ceil_div(queries, lanes) * lanes
    return keys * lanes * 4 <= _MOST_SCRATCH and padded <= _MOST_PADDING * queries and scores[-1] > 0


def operand_perm(matmul: Node, side: str, rank: int, *, swapped: bool) -> tuple[int, ...] | None:
    """The permutation of an operand, its last two axes `swapped` beyond what the product does; None for none."""
    plain = tuple(range(rank))
    perm = tuple(matmul.attrs.get(f"{side}_perm") or plain)
    if bool(matmul.attrs.get(f"transpose_{side}")) != swapped:
        perm = (*perm[:-2], perm[-1], perm[-2])
    return None if perm == plain else perm
