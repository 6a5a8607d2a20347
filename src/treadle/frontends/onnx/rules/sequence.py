"""Operators on sequences of tensors, as far as the elements are values of the core."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from treadle import dtypes
from treadle.dtypes import DType
from treadle.errors import ShapeError
from treadle.frontends.faults import Fault
from treadle.frontends.onnx.build import Builder
from treadle.frontends.onnx.lists import (
    TensorList,
    item_of,
    items_of,
    joined,
    length_of,
    merged,
    of_items,
    of_stack,
    stack_of,
)
from treadle.frontends.onnx.node import OnnxNode
from treadle.frontends.onnx.types import DTYPES
from treadle.graph.shape import normalize_axis
from treadle.graph.value import Value
from treadle.ops.op import Array
from treadle.records import dataclass

MOST_ITEMS = 64
"""A stacked list with more elements is not divided into single values."""


@dataclass(frozen=True, slots=True)
class SequenceNode:
    """A node that reads or gives lists. `node` has the tensors among its operands, `lists` the lists, by number."""

    node: OnnxNode
    lists: dict[int, TensorList]

    def list(self, index: int = 0) -> TensorList:
        """Return operand `index`. Raises Fault if it is no sequence."""
        found = self.lists.get(index)
        if found is None:
            raise Fault(f"its input number {index} must be a sequence")
        return found


SequenceRule = Callable[[SequenceNode, Builder], Value | TensorList | None]
"""Returns the result of a node; None if core ops cannot express it, or its operands are not known well enough."""


def _empty(sequence: SequenceNode, b: Builder) -> TensorList | None:  # noqa: ARG001 - the form of rules
    dtype = DTYPES.get(sequence.node.integer("dtype", 1))
    return None if dtype is None or dtype is dtypes.string else of_items(dtype, ())


def _construct(sequence: SequenceNode, b: Builder) -> TensorList | None:  # noqa: ARG001 - the form of rules
    values = [sequence.node.input(index) for index in range(len(sequence.node.inputs))]
    dtype = values[0].dtype
    if dtype is None or dtype is dtypes.string or any(value.dtype is None for value in values):
        return None
    _check_dtypes(dtype, values)
    return of_items(dtype, values)


def _check_dtypes(dtype: DType, values: Sequence[Value]) -> None:
    for value in values:
        if value.dtype not in (None, dtype):
            raise Fault(f"all elements of a sequence must have one dtype; wanted {dtype}, got {value.dtype}")


def _at(sequence: SequenceNode, b: Builder) -> Value | None:
    found, position = sequence.list(), sequence.node.input(1)
    known, count = b.known.array(position), length_of(found, b)
    if known is not None and count is not None:
        return item_of(found, _place(known, count, count - 1), b)
    stack = stack_of(found, b)
    if stack is None:
        return None
    return b.add("gather", stack, b.as_scalar(position), axis=0)


def _length(sequence: SequenceNode, b: Builder) -> Value:
    found = sequence.list()
    count = length_of(found, b)
    if count is not None:
        return b.constant(np.asarray(count, np.int64))
    assert found.stack is not None, "a list without a known number of elements has a stack"
    return b.size(found.stack, 0)


def _insert(sequence: SequenceNode, b: Builder) -> TensorList | None:
    found, value = sequence.list(), sequence.node.input(1)
    if value.dtype is None:
        return None
    _check_dtypes(found.dtype, [value])
    position = sequence.node.optional(2)
    if position is None:
        return joined(found, of_items(found.dtype, [value]), b)
    known, items = b.known.array(position), _few_items(found, b)
    if known is None or items is None:
        return None
    place = _place(known, len(items), len(items))
    return of_items(found.dtype, (*items[:place], value, *items[place:]))


def _erase(sequence: SequenceNode, b: Builder) -> TensorList | None:
    found, position = sequence.list(), sequence.node.optional(1)
    known = np.array(-1) if position is None else b.known.array(position)
    items = _few_items(found, b)
    if known is None or items is None:
        return None
    place = _place(known, len(items), len(items) - 1)
    return of_items(found.dtype, (*items[:place], *items[place + 1 :]))


def _few_items(found: TensorList, b: Builder) -> tuple[Value, ...] | None:
    """The elements of a list; None if their number is not known, or a stacked list has more than MOST_ITEMS."""
    count = length_of(found, b)
    return None if count is None or (found.items is None and count > MOST_ITEMS) else items_of(found, b)


def _place(known: Array, count: int, last: int) -> int:
    """The position in a sequence of `count` elements as a number from 0 to `last`. Raises Fault if it is another."""
    if known.size != 1:
        raise Fault(f"its position must be one integer, got {known.size} elements")
    place = int(known.reshape(-1)[0])
    if not -count <= place <= last:
        raise Fault(f"position {place} is out of range for a sequence of {count} elements; wanted {-count} to {last}")
    return place if place >= 0 else place + count


def _concat(sequence: SequenceNode, b: Builder) -> Value | None:
    found = sequence.list()
    axis, new = sequence.node.integer("axis", 0), sequence.node.flag("new_axis", default=False)
    if found.stack is not None:
        return _unstacked(found.stack, axis, b, new=new)
    items = found.items or ()
    if not items:
        raise Fault("it joins a sequence without elements; wanted one at least")
    if new:
        items = tuple(b.add("unsqueeze", item, b.integers([axis])) for item in items)
    return b.add("concat", *items, axis=axis)


def _unstacked(stack: Value, axis: int, b: Builder, *, new: bool) -> Value | None:
    """The items of `stack` joined along `axis`: a `new` axis, or one that they have."""
    dims = b.known.dims(stack)
    if dims is None or (len(dims) == 1 and not new):
        return None
    rank = len(dims)
    axis = _axis(axis, rank if new else rank - 1)
    order = [*range(1, axis + 1), 0, *range(axis + 1, rank)]
    moved = stack if axis == 0 else b.add("transpose", stack, perm=tuple(order))
    if new:
        return moved
    return merged(moved, axis, b)


def _axis(axis: int, rank: int) -> int:
    try:
        return normalize_axis(axis, rank)
    except ShapeError as error:
        raise Fault(str(error)) from None


def _split(sequence: SequenceNode, b: Builder) -> TensorList | None:
    node = sequence.node
    x, given = node.input(0), node.optional(1)
    dims = node.dims()
    if dims is None or not dims or x.dtype is None or x.dtype is dtypes.string:
        return None
    axis = node.axis(node.integer("axis", 0))
    if given is None:
        order = (axis, *(other for other in range(len(dims)) if other != axis))
        stack = x if axis == 0 else b.add("transpose", x, perm=order)
        if node.flag("keepdims", default=True):
            stack = b.add("unsqueeze", stack, b.integers([axis + 1]))
        return of_stack(stack)
    sizes = _sizes(b.known.array(given), dims[axis])
    if sizes is None:
        return None
    parts = b.add_many("split", [x, b.integers(sizes)], len(sizes), axis=axis, parts=len(sizes))
    return of_items(x.known_dtype, parts)


def _sizes(split: Array | None, total: int | None) -> list[int] | None:
    """The sizes of the parts of an axis; None if they are not known, or too many. Raises Fault if they do not fit."""
    if split is None or (total is None and not split.ndim):
        return None
    if split.ndim or total is None:
        sizes = [int(size) for size in split]
        if any(size < 0 for size in sizes) or total not in (None, sum(sizes)):
            raise Fault(f"its parts have the sizes {sizes}, but the axis has {total}")
    else:
        size = int(split)
        if size < 1:
            raise Fault(f"its parts must have 1 element at least, got {size}")
        sizes = [min(size, total - start) for start in range(0, total, size)]
    return sizes if len(sizes) <= MOST_ITEMS else None


def _identity(sequence: SequenceNode, b: Builder) -> TensorList:  # noqa: ARG001 - the form of rules
    return sequence.list()


def _present(sequence: SequenceNode, b: Builder) -> Value:  # noqa: ARG001 - the form of rules
    return b.constant(np.asarray(True))


RULES: dict[str, SequenceRule] = {
    "ConcatFromSequence": _concat,
    "Identity": _identity,
    "OptionalGetElement": _identity,
    "OptionalHasElement": _present,
    "SequenceAt": _at,
    "SequenceConstruct": _construct,
    "SequenceEmpty": _empty,
    "SequenceErase": _erase,
    "SequenceInsert": _insert,
    "SequenceLength": _length,
    "SplitToSequence": _split,
}
"""Operators of ONNX -> their rules, for nodes with an operand that is a list, and for those in `MAKERS`."""

MAKERS = frozenset(("SequenceConstruct", "SequenceEmpty", "SplitToSequence"))
"""Operators that make lists of tensors."""
