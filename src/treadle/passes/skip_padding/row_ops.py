"""Nodes that compute each token by itself: their packed forms."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from treadle.graph.node import Node
from treadle.graph.shape import normalize_axis
from treadle.ops.elementwise import SCALAR_OPS
from treadle.ops.matmul import operand_shape
from treadle.ops.reduce import REDUCTIONS, reduced_axes
from treadle.ops.sizes import known_sizes
from treadle.passes.match import Edit
from treadle.passes.skip_padding.axes import TEXT, TOKEN, Axes, is_plain, joined, permuted
from treadle.passes.skip_padding.packing import Packed, Packing

Result = Sequence[Packed] | None


def packed_results(packing: Packing, node: Node, edit: Edit) -> Result:
    """The packed forms of the results of `node`; None if it does not compute each token by itself."""
    rule = _RULES.get(node.op)
    return None if rule is None else rule(packing, node, edit)


def _elementwise(packing: Packing, node: Node, edit: Edit) -> Result:
    all_axes = [packing.axes_of(value) for value in node.inputs if value is not None]
    known = [axes for axes in all_axes if axes is not None]
    axes = joined(known) if len(known) == len(all_axes) else None
    if axes is None:
        return None
    operands = [None if value is None else packing.form(value, edit, axes) for value in node.inputs]
    if any(operand is None for operand in operands):
        return None
    (made,) = edit.again([operand.value for operand in operands if operand is not None])
    return [Packed(made, axes)]


def _reshape(packing: Packing, node: Node, edit: Edit) -> Result:
    x = packing.form(node.operand(0), edit)
    axes = None if x is None else packing.sizes.reshaped(x.axes, node.output.static_shape)
    if x is None or axes is None:
        return None
    return [Packed(edit.reshape(x.value, packing.sizes.packed(axes)), axes)]


def _transpose(packing: Packing, node: Node, edit: Edit) -> Result:
    x = packing.form(node.operand(0), edit)
    if x is None:
        return None
    (made,) = edit.again([x.value])
    return [Packed(made, permuted(x.axes, node.attrs["perm"]))]


def _norm(packing: Packing, node: Node, edit: Edit) -> Result:
    """Over the last axes, from attribute `axis` on."""
    x = packing.form(node.operand(0), edit)
    others = [value for value in node.inputs[1:] if value is not None]
    if x is None or not all(map(is_plain, x.axes[normalize_axis(node.attrs["axis"], len(x.axes)) :])):
        return None
    if not all(_is_plain(packing.axes_of(value)) for value in others):
        return None
    (made,) = edit.again([x.value, *node.inputs[1:]])
    return [Packed(made, x.axes)]


def _softmax(packing: Packing, node: Node, edit: Edit) -> Result:
    x = packing.form(node.operand(0), edit)
    if x is None or not is_plain(x.axes[normalize_axis(node.attrs["axis"], len(x.axes))]):
        return None
    (made,) = edit.again([x.value])
    return [Packed(made, x.axes)]


def _reduce(packing: Packing, node: Node, edit: Edit) -> Result:
    x = packing.form(node.operand(0), edit)
    if x is None or len(node.inputs) != 1 or node.attrs.get("head") is not None:
        return None
    reduced = reduced_axes(node.attrs["axes"], len(x.axes))
    if not all(is_plain(x.axes[at]) for at in reduced):
        return None
    kept = [() if at in reduced else axis for at, axis in enumerate(x.axes)]
    axes = tuple(axis for at, axis in enumerate(kept) if node.attrs["keepdims"] or at not in reduced)
    (made,) = edit.again([x.value])
    return [Packed(made, axes)]


def _gather(packing: Packing, node: Node, edit: Edit) -> Result:
    x, indices = packing.form(node.operand(0), edit), packing.form(node.operand(1), edit)
    if x is None or indices is None:
        return None
    at = normalize_axis(node.attrs["axis"], len(x.axes))
    if not is_plain(x.axes[at]) or not (_is_plain(x.axes) or _is_plain(indices.axes)):
        return None
    (made,) = edit.again([x.value, indices.value])
    return [Packed(made, (*x.axes[:at], *indices.axes, *x.axes[at + 1 :]))]


def _slice(packing: Packing, node: Node, edit: Edit) -> Result:
    x = packing.form(node.operand(0), edit)
    starts = known_sizes(node.inputs[1])
    if x is None or starts is None:
        return None
    given = known_sizes(node.inputs[3]) if len(node.inputs) > 3 and node.inputs[3] is not None else range(len(starts))
    if given is None:
        return None
    return _resized(packing, node, edit, x, [normalize_axis(at, len(x.axes)) for at in given])


def _split(packing: Packing, node: Node, edit: Edit) -> Result:
    x = packing.form(node.operand(0), edit)
    return None if x is None else _resized(packing, node, edit, x, [normalize_axis(node.attrs["axis"], len(x.axes))])


def _resized(packing: Packing, node: Node, edit: Edit, x: Packed, changed: Sequence[int]) -> Result:
    """Of a node that takes parts of x along the axes `changed`."""
    if not all(is_plain(x.axes[at]) for at in changed):
        return None
    found = []
    for value, made in zip(node.outputs, edit.again([x.value, *node.inputs[1:]]), strict=True):
        sizes = packing.sizes.axes(tuple(value.static_shape[at] for at in changed))
        if sizes is None:
            return None
        own = dict(zip(changed, sizes, strict=True))
        found.append(Packed(made, tuple(own.get(at, axis) for at, axis in enumerate(x.axes))))
    return found


def _concat(packing: Packing, node: Node, edit: Edit) -> Result:
    operands = [packing.form(value, edit) for value in node.inputs if value is not None]
    parts = [operand for operand in operands if operand is not None]
    if len(parts) < len(node.inputs):
        return None
    at = normalize_axis(node.attrs["axis"], len(parts[0].axes))
    others = {tuple(axis for number, axis in enumerate(part.axes) if number != at) for part in parts}
    whole = packing.sizes.axes((node.output.static_shape[at],))
    if len(others) > 1 or whole is None or not all(is_plain(part.axes[at]) for part in parts):
        return None
    (made,) = edit.again([part.value for part in parts])
    axes = parts[0].axes
    return [Packed(made, (*axes[:at], whole[0], *axes[at + 1 :]))]


def multiplied(node: Node, side: str, axes: Axes) -> Axes:
    """The axes of operand `side` ("a" or "b") of a matmul as it is multiplied."""
    numbers = operand_shape(node.attrs, side, tuple(range(len(axes))))
    return tuple(axes[at] for at in numbers)


def _matmul(packing: Packing, node: Node, edit: Edit) -> Result:
    if len(node.inputs) != 2:
        return None
    left, right = packing.form(node.operand(0), edit), packing.form(node.operand(1), edit)
    if left is None or right is None or min(len(left.axes), len(right.axes)) < 2:
        return None
    a, b = multiplied(node, "a", left.axes), multiplied(node, "b", right.axes)
    batch = joined([a[:-2], b[:-2]])
    if batch is None or not is_plain(a[-1]) or not is_plain(b[-2]):
        return None
    axes = (*batch, a[-2], b[-1])
    factors = [factor for axis in axes for factor in axis]
    if factors.count(TOKEN) > 1 or factors.count(TEXT) > 1:
        return None
    (made,) = edit.again([left.value, right.value])
    return [Packed(made, permuted(axes, node.attrs.get("out_perm")))]


def _is_plain(axes: Axes | None) -> bool:
    return axes is not None and all(map(is_plain, axes))


_RULES: dict[str, Callable[[Packing, Node, Edit], Result]] = {
    **dict.fromkeys((*SCALAR_OPS, "cast"), _elementwise),
    **dict.fromkeys(REDUCTIONS, _reduce),
    "reshape": _reshape,
    "transpose": _transpose,
    "layer_norm": _norm,
    "rms_norm": _norm,
    "softmax": _softmax,
    "log_softmax": _softmax,
    "gather": _gather,
    "slice": _slice,
    "split": _split,
    "concat": _concat,
    "matmul": _matmul,
}
