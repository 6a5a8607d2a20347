"""Lists of tensors: ONNX sequences whose elements are values of the core."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from treadle.dtypes import DType
from treadle.frontends.onnx.build import Builder
from treadle.graph.value import Value
from treadle.records import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class TensorList:
    """A sequence of tensors.

    Attributes:
        dtype: Of all elements.
        items: The elements, if their number is known.
        stack: One value whose items along the first axis are the elements. A list has either `items` or a stack.
    """

    dtype: DType
    items: tuple[Value, ...] | None
    stack: Value | None = None

    @property
    def values(self) -> tuple[Value, ...]:
        """The values that hold the elements: the stack, or all of them."""
        return (self.stack,) if self.stack is not None else self.items or ()

    def with_values(self, values: Sequence[Value]) -> TensorList:
        """Return a list of the same form that these values hold."""
        if self.stack is not None:
            return TensorList(self.dtype, None, values[0])
        return TensorList(self.dtype, tuple(values))


def of_items(dtype: DType, items: Sequence[Value]) -> TensorList:
    """Return a list of these elements."""
    return TensorList(dtype, tuple(items))


def of_stack(stack: Value) -> TensorList:
    """Return a list of the items of `stack` along its first axis."""
    return TensorList(stack.known_dtype, None, stack)


def length_of(found: TensorList, b: Builder) -> int | None:
    """Return how many elements `found` has, if that is known."""
    if found.items is not None:
        return len(found.items)
    assert found.stack is not None
    dims = b.known.dims(found.stack)
    return None if dims is None else dims[0]


def items_of(found: TensorList, b: Builder) -> tuple[Value, ...] | None:
    """Return the elements of `found` as values; None if their number is not known."""
    count = length_of(found, b)
    if found.items is not None or count is None:
        return found.items
    return tuple(item_of(found, number, b) for number in range(count))


def item_of(found: TensorList, number: int, b: Builder) -> Value:
    """Return the element with this number, which is in the list. It counts from the end if it is negative."""
    if found.items is not None:
        return found.items[number]
    assert found.stack is not None
    return b.add("gather", found.stack, b.constant(np.asarray(number, np.int64)), axis=0)


def stack_of(found: TensorList, b: Builder) -> Value | None:
    """Return the elements of `found` along the first axis of one value; None if they may have several shapes."""
    if found.stack is not None:
        return found.stack
    items = found.items or ()
    if not items or not all(b.known.same_shape(items[0], item) for item in items):
        return None
    raised = [b.add("unsqueeze", item, b.integers([0])) for item in items]
    return raised[0] if len(raised) == 1 else b.add("concat", *raised, axis=0)


def joined(one: TensorList, other: TensorList, b: Builder) -> TensorList | None:
    """Return the elements of both lists, of one dtype; None if their number or a common shape is not known."""
    if one.items is not None and other.items is not None:
        return of_items(one.dtype, (*one.items, *other.items))
    if one.items == ():
        return other
    if other.items == ():
        return one
    first, second = stack_of(one, b), stack_of(other, b)
    if first is None or second is None or not b.known.same_items(first, second):
        return None
    return of_stack(b.add("concat", first, second, axis=0))


def with_lists(values: Sequence[Value], forms: Sequence[TensorList | None]) -> list[Value | TensorList]:
    """Return `values` as lists of these forms, and as themselves where there is no form."""
    rest = iter(values)
    return [next(rest) if form is None else form.with_values([next(rest) for _ in form.values]) for form in forms]


def merged(value: Value, axis: int, b: Builder) -> Value:
    """Return `value`, of a known rank, with `axis` and the next one as one axis."""
    rank = len(b.known.dims(value) or ())
    sizes = b.add("shape", value, start=0, end=None)
    before, pair, after = (
        _part(sizes, start, end, b) for start, end in ((0, axis), (axis, axis + 2), (axis + 2, rank))
    )
    total = b.add("reduce_prod", pair, axes=(0,), keepdims=True)
    return b.add("reshape", value, b.add("concat", before, total, after, axis=0), allowzero=True)


def _part(sizes: Value, start: int, end: int, b: Builder) -> Value:
    return b.add("slice", sizes, b.integers([start]), b.integers([end]), b.integers([0]))
