"""Shapes of results for operands of partly known shape, by one rule for each op.

Trying ops with assumed sizes fails where sizes must agree with known ones, and where a shape depends on a value. There
these rules say what can be said.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from treadle.compat.tensorflow.shape import TensorShape

if TYPE_CHECKING:
    from treadle.compat.tensorflow.graph import Operation
    from treadle.compat.tensorflow.tensor import Tensor

Dims = Sequence[int | None] | None
"""Sizes, None for unknown ones; None for an unknown rank."""


def partial_shape(op: Operation) -> TensorShape:
    """Return what is known of the shape of the first result of `op`."""
    rule = RULES.get(op.kind)
    if any(hasattr(value, "op") for value in op.attrs.values()):
        return TensorShape(None)  # an attribute is known only in the run
    return TensorShape(None if rule is None else rule(op))


def numbers(tensor: Tensor) -> Dims:
    """Return the shape that a tensor holds, as far as it is known; -1 in it is unknown."""
    found = integers(tensor)
    return None if found is None else [None if number is None or number < 0 else number for number in found]


def integers(tensor: Tensor) -> Dims:
    """Return the elements of a tensor, as far as they are known; None if their number is unknown."""
    a, b = (form.value for form in tensor.infos)
    if a is not None and b is not None and a.shape == b.shape:
        return [int(x) if x == y else None for x, y in zip(a.reshape(-1), b.reshape(-1), strict=True)]
    dims = tensor.shape.dims
    return [None] * dims[0] if dims is not None and len(dims) == 1 and dims[0] is not None else None


def merged(a: Dims, b: Dims) -> Dims:
    """Return what two descriptions of one shape say together."""
    if a is None or b is None or len(a) != len(b):
        return b if a is None else a
    return [y if x is None else x for x, y in zip(a, b, strict=True)]


def common(a: TensorShape, b: TensorShape) -> TensorShape:
    """Return what two different shapes have in common."""
    if a.dims is None or b.dims is None or len(a.dims) != len(b.dims):
        return TensorShape(None)
    return TensorShape([x if x == y else None for x, y in zip(a.dims, b.dims, strict=True)])


def broadcast(a: Dims, b: Dims) -> Dims:
    """Return the shape of an elementwise result."""
    if a is None or b is None:
        return None
    rank = max(len(a), len(b))
    pairs = zip([1] * (rank - len(a)) + [*a], [1] * (rank - len(b)) + [*b], strict=True)
    return [y if x == 1 else x if y == 1 or y is None else y if x is None or x == y else None for x, y in pairs]


def _dims(op: Operation) -> list[Dims]:
    return [tensor.shape.dims for tensor in op.inputs]


def _elementwise(op: Operation) -> Dims:
    first, *others = _dims(op)
    for other in others:
        first = broadcast(first, other)
    return first


def _agreeing(op: Operation) -> Dims:
    first, *others = _dims(op)
    for other in others:
        first = merged(first, other)
    return first


def _first(op: Operation) -> Dims:
    return op.inputs[0].shape.dims


def _matmul(op: Operation) -> Dims:
    a, b = _dims(op)[:2]
    if a is None or b is None or min(len(a), len(b)) < 2:
        return None
    rows = a[-1] if op.attrs.get("transpose_a") else a[-2]
    columns = b[-2] if op.attrs.get("transpose_b") else b[-1]
    batch = broadcast(a[:-2], b[:-2])
    return None if batch is None else [*batch, rows, columns]


def _concat(op: Operation) -> Dims:
    shapes, axis = _dims(op), op.attrs.get("axis")
    rank = next((len(dims) for dims in shapes if dims is not None), None)
    if rank is None or not isinstance(axis, int):
        return None
    lengths = [None if dims is None or len(dims) != rank else dims[axis] for dims in shapes]
    found = list(_agreeing(op) or ())
    found[axis] = None if None in lengths else sum(length for length in lengths if length is not None)
    return found


def _stack(op: Operation) -> Dims:
    found, axis = _agreeing(op), op.attrs.get("axis", 0)
    if found is None:
        return None
    axis_index = axis if axis >= 0 else len(found) + 1 + axis
    return [*found[:axis_index], len(op.inputs), *found[axis_index:]]


def _transpose(op: Operation) -> Dims:
    perm, dims = op.attrs.get("perm"), _first(op)
    if perm is None:
        return None if dims is None else dims[::-1]
    return [None] * len(perm) if dims is None else [dims[axis] for axis in perm]


def _tile(op: Operation) -> Dims:
    dims, times = _first(op), numbers(op.inputs[1])
    if dims is None or times is None or len(dims) != len(times):
        known = dims if times is None else times
        return None if known is None else [None] * len(known)
    return [None if dim is None or count is None else dim * count for dim, count in zip(dims, times, strict=True)]


def _slice(op: Operation) -> Dims:
    dims, sizes = _first(op), numbers(op.inputs[2])
    return [None] * len(dims) if sizes is None and dims is not None else sizes


def _index(op: Operation) -> Dims:
    dims = _first(op)
    if dims is None:
        return None
    items = op.attrs["items"]
    used = sum(item[0] in ("at", "slice") for item in items)
    bounds = [(integers(tensor) or [None])[0] for tensor in op.inputs[1:]]
    rest, found = list(dims), list[int | None]()
    for kind, *ends in items:
        if kind == "new":
            found.append(1)
        elif kind == "rest":
            found += [rest.pop(0) for _ in range(len(dims) - used)]
        else:
            length = rest.pop(0)
            if kind == "slice":
                found.append(_length(length, [None if end is None else bounds[end] for end in ends], ends))
    return found + rest


def _length(length: int | None, ends: Sequence[int | None], given: Sequence[int | None]) -> int | None:
    """Return the number of elements that a slice takes of `length`; None if unknown."""
    if all(end is None for end in given):
        return length
    if length is None or any(end is None and at is not None for end, at in zip(ends, given, strict=True)):
        return None
    return len(range(*slice(*ends).indices(length)))


def _masked(op: Operation) -> Dims:
    dims, mask = _dims(op)[:2]
    return None if dims is None or mask is None else [None, *dims[len(mask) :]]


def _where(op: Operation) -> Dims:
    if len(op.inputs) > 1:
        return _elementwise(op)
    dims = _first(op)
    return [None, None if dims is None else len(dims)]


def _conv(op: Operation) -> Dims:
    dims = op.inputs[1].shape.dims
    return None if dims is None or op.attrs.get("data_format") else [None] * (len(dims) - 1) + [dims[-1]]


def _reduced(op: Operation) -> Dims:
    return [] if op.attrs.get("axis") is None and not op.attrs.get("keepdims") else None


def _squeezed(op: Operation) -> Dims:
    dims, axis = _first(op), op.attrs.get("axis")
    if dims is None or axis is None or axis == ():
        return None
    removed = {axis_index % len(dims) for axis_index in ([axis] if isinstance(axis, int) else axis)}
    return [dim for axis_index, dim in enumerate(dims) if axis_index not in removed]


def _vector(op: Operation) -> Dims:
    return [None if op.inputs[0].shape.rank is None else op.inputs[0].shape.rank]


def _of_first(op: Operation) -> Dims:
    return numbers(op.inputs[0])


def _of_second(op: Operation) -> Dims:
    return numbers(op.inputs[1])


_UNARY = ("abs", "cast", "identity", "zeros_like", "ones_like", "softmax", "log_softmax", "relu", "bias_add", "dropout")
_BINARY = (
    "add", "divide", "div_no_nan", "floordiv", "floormod", "maximum", "minimum", "mod", "multiply", "pow", "subtract",
    "squared_difference", "truediv", "equal", "greater", "greater_equal", "less", "less_equal", "logical_and",
    "logical_or", "logical_xor", "not_equal", "clip_by_value",
)  # fmt: skip
_REDUCTIONS = ("all", "any", "logsumexp", "max", "mean", "min", "prod", "std", "sum", "variance")

RULES: dict[str, Callable[[Any], Dims]] = {
    **dict.fromkeys(_UNARY, _first),
    **dict.fromkeys(_BINARY, _elementwise),
    **{f"reduce_{name}": _reduced for name in _REDUCTIONS},
    "add_n": _agreeing,
    "boolean_mask": _masked,
    "broadcast_to": _of_second,
    "concat": _concat,
    "conv": _conv,
    "fill": _of_first,
    "index": _index,
    "matmul": _matmul,
    "ones": _of_first,
    "range": lambda _: [None],
    "rank": lambda _: [],
    "reshape": _of_second,
    "shape": _vector,
    "size": lambda _: [],
    "slice": _slice,
    "squeeze": _squeezed,
    "stack": _stack,
    "tile": _tile,
    "transpose": _transpose,
    "where": _where,
    "zeros": _of_first,
}
"""The shape of the first result by kind of operation."""

RULE_PREFERRED = ("index", "squeeze")
"""Kinds whose rule is used even where the trial succeeds: with an unknown size the result may be smaller than tried."""
