"""Attention among the tokens of a text: from the product of queries and keys to that of weights and values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from treadle.dtypes import f32, f64
from treadle.graph.expr import Expr, Step
from treadle.graph.node import Node
from treadle.graph.shape import normalize_axis
from treadle.graph.value import Value
from treadle.passes.fuse_attention import operand_perm
from treadle.passes.match import Edit, join_names
from treadle.passes.skip_padding.axes import TEXT, TOKEN, Axes, is_plain, joined, permuted
from treadle.passes.skip_padding.masks import LOWEST, Mask, hides
from treadle.passes.skip_padding.packing import OFFSETS, Packed, Packing
from treadle.passes.skip_padding.row_ops import multiplied
from treadle.records import dataclass


@dataclass(frozen=True, slots=True)
class Scores:
    """Scores, or after the softmax weights, of the tokens of each text for each other.

    `axes` are those of the padded value, whose last ones are queries and keys. `masked`: keys that are padding get no
    weight. `is_nan`: it tells which weights are NaN.
    """

    product: Node
    q: Value
    k: Value
    axes: Axes
    scale: float = 1.0
    masked: bool = False
    softmax: Node | None = None
    is_nan: bool = False


def scores_of(packing: Packing, node: Node, edit: Edit) -> Scores | None:
    """What `node` gives if it multiplies queries by keys."""
    if node.op != "matmul" or len(node.inputs) != 2 or node.attrs.get("out_perm") is not None:
        return None
    q, k = packing.form(node.operand(0), edit), packing.form(node.operand(1), edit)
    if q is None or k is None or len(q.axes) != len(k.axes) or node.output.dtype not in (f32, f64):
        return None
    a, b = multiplied(node, "a", q.axes), multiplied(node, "b", k.axes)
    batch = joined([a[:-2], b[:-2]])
    if batch is None or not is_plain(a[-1]) or (a[-2], b[-1]) != ((TOKEN,), (TOKEN,)):
        return None
    if a[:-2] != b[:-2] or (TEXT,) not in batch:
        return None
    return Scores(node, q.value, k.value, (*batch, (TOKEN,), (TOKEN,)))


def changed_scores(packing: Packing, node: Node, scores: dict[Value, Scores]) -> Scores | str | None:
    """What `node` makes of scores, as a text if they cannot be packed then; None if it is no part of attention."""
    at = next((number for number, value in enumerate(node.inputs) if value is not None and value in scores), None)
    if at is None:
        return None
    own = scores[node.operand(at)]
    if len(node.output.static_shape) != len(own.axes):
        return "it changes the axes of the scores of attention"
    if own.softmax is not None:
        return _changed_weights(packing, node, scores) or "it changes the weights of attention"
    if node.op == "softmax":
        if normalize_axis(node.attrs["axis"], len(own.axes)) != len(own.axes) - 1:
            return "it is no softmax over keys"
        return replace(own, softmax=node) if own.masked else "no mask hides the keys that are padding from it"
    rule = _CHANGES.get(node.op)
    found = None if rule is None else rule(packing, node, at, own)
    return found or "it does more to the scores of attention than to scale them and to hide padding by the mask"


def _scaled(packing: Packing, node: Node, at: int, own: Scores) -> Scores | None:
    factor = packing.masks.number(node.inputs[1 - at])
    if not factor or own.masked or (node.op == "div" and at == 1):
        return None
    return replace(own, scale=own.scale * float(factor) if node.op == "mul" else own.scale / float(factor))


def _increased(packing: Packing, node: Node, at: int, own: Scores) -> Scores | None:
    other = node.inputs[1 - at]
    if packing.masks.number(other) == 0:
        return own
    mask = packing.masks.get(other)
    hidden = mask is not None and hides(mask) and _is_over_keys(mask, other, own.axes)
    return replace(own, masked=True) if hidden else None


def _chosen(packing: Packing, node: Node, at: int, own: Scores) -> Scores | None:
    """where(mask, scores, number), or the other way round."""
    condition, filler = packing.masks.get(node.inputs[0]), packing.masks.number(node.inputs[3 - at])
    if condition is None or filler is None or bool(condition.one) != (at == 1) or bool(condition.zero) != (at == 2):
        return None
    hidden = filler <= LOWEST and _is_over_keys(condition, node.inputs[0], own.axes)
    return replace(own, masked=True) if hidden else None


_CHANGES: dict[str, Callable[[Packing, Node, int, Scores], Scores | None]] = {
    "mul": _scaled,
    "div": _scaled,
    "add": _increased,
    "where": _chosen,
}
"""What nodes make of scores that are their operand of the number given; None if that cannot be packed."""


def _changed_weights(packing: Packing, node: Node, scores: dict[Value, Scores]) -> Scores | None:
    """The weights w if `node` is where(isnan(w), 0, w): a token has keys, if only itself, so that no weight is NaN for
    the lack of them."""
    if node.op == "isnan":
        return replace(scores[node.operand(0)], is_nan=True)
    if node.op != "where":
        return None
    condition, weights = scores.get(node.operand(0)), scores.get(node.operand(2))
    if condition is None or weights is None or weights.is_nan or replace(weights, is_nan=True) != condition:
        return None
    return weights if packing.masks.number(node.inputs[1]) == 0 else None


def _is_over_keys(mask: Mask | None, value: Value | None, axes: Axes) -> bool:
    if mask is None or value is None:
        return False
    return mask.is_at(len(value.static_shape), axes.index((TEXT,)), len(axes) - 1, len(axes))


def attended(packing: Packing, node: Node, scores: dict[Value, Scores], edit: Edit) -> Packed | None:
    """The result of `node` if it multiplies weights of attention by values."""
    own = scores.get(node.operand(0)) if node.op == "matmul" and len(node.inputs) == 2 else None
    v = None if own is None else packing.form(node.operand(1), edit)
    if own is None or own.softmax is None or own.is_nan or v is None or len(v.axes) != len(own.axes):
        return None
    if node.attrs.get("a_perm") or node.attrs.get("transpose_a"):
        return None
    b = multiplied(node, "b", v.axes)
    if b[:-2] != own.axes[:-2] or b[-2] != (TOKEN,) or not is_plain(b[-1]):
        return None
    rank = len(own.axes)
    attrs: dict[str, Any] = {
        "q_perm": operand_perm(own.product, "a", rank, swapped=False),
        "k_perm": operand_perm(own.product, "b", rank, swapped=True),
        "v_perm": operand_perm(node, "b", rank, swapped=False),
        "out_perm": node.attrs.get("out_perm"),
        "epilogue": _scaling(own, node),
        "safe": own.softmax.attrs.get("safe"),
    }
    attrs = {name: value for name, value in attrs.items() if value is not None}
    operands = [own.q, own.k, v.value, packing.given(OFFSETS)]
    made = edit.add(
        "packed_attention",
        operands,
        {**attrs, "longest": packing.sizes.length},
        name=join_names([own.product, own.softmax, node]),
    )
    return Packed(made, permuted((*own.axes[:-1], b[-1]), node.attrs.get("out_perm")))


def _scaling(scores: Scores, node: Node) -> Expr | None:
    dtype = node.output.known_dtype
    if scores.scale == 1.0:
        return None
    return Expr((dtype,), (Step("const", (), dtype, scores.scale), Step("mul", (0, 1), dtype)), (2,))
