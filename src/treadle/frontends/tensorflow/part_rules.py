"""The ops on lists of tensors for lists that are tensors themselves (see `list_parts`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from treadle import dtypes
from treadle.dtypes import DType
from treadle.frontends.tensorflow import list_parts
from treadle.frontends.tensorflow.emitter import Emitter
from treadle.frontends.tensorflow.list_ops import declared_dims, dims_in
from treadle.frontends.tensorflow.list_parts import ListForm, ListParts
from treadle.frontends.tensorflow.lists import Dims
from treadle.frontends.tensorflow.node import Node
from treadle.graph.value import Value

FORM = "form"
"""The attribute of a node that says what tensors its list is."""

Results = tuple[ListParts | None, list[Value]]
"""A list, if the op makes one, and other results."""


def _described(values: Sequence[Value], place: int) -> Dims:
    found = values[place].data if len(values) > place else None
    return None if found is None else dims_in(found)


def grows(node: Node) -> bool:
    """Return whether a write behind the end of the list makes it longer."""
    return bool(node.attr("resize_if_index_out_of_bounds", False))


def _get(e: Emitter, _: Node, parts: ListParts, values: Sequence[Value]) -> Results:
    return None, [list_parts.item(e, parts, values[0], _described(values, 1))]


def _set(e: Emitter, node: Node, parts: ListParts, values: Sequence[Value]) -> Results:
    if parts.next_is(values[0], grows=grows(node)):
        return list_parts.with_next_item(e, parts, values[1]), []
    return list_parts.with_item(e, parts, values[0], values[1]), []


def _set_new(e: Emitter, _: Node, parts: ListParts, values: Sequence[Value]) -> Results:
    return list_parts.with_item(e, parts, values[0], values[1], only_new=True), []


def _push_new(e: Emitter, _: Node, parts: ListParts, values: Sequence[Value]) -> Results:
    return list_parts.pushed(e, parts, values[-1], only_new=True), []


def _push(e: Emitter, _: Node, parts: ListParts, values: Sequence[Value]) -> Results:
    return list_parts.pushed(e, parts, values[-1]), []


def _pop(e: Emitter, _: Node, parts: ListParts, values: Sequence[Value]) -> Results:
    made, found = list_parts.popped(e, parts, _described(values, 0))
    return made, [found]


def _length(e: Emitter, _: Node, parts: ListParts, __: Sequence[Value]) -> Results:
    return None, [list_parts.length(e, parts)]


def _stack(e: Emitter, node: Node, parts: ListParts, values: Sequence[Value]) -> Results:
    return None, [list_parts.stacked(e, parts, _described(values, 0), int(node.attr("num_elements", -1)))]


def _gather(e: Emitter, node: Node, parts: ListParts, values: Sequence[Value]) -> Results:
    dims = _described(values, 1) if len(values) > 1 else declared_dims(node)
    return None, [list_parts.stacked(e, list_parts.picked(e, parts, values[0]), dims)]


def _join(e: Emitter, _: Node, parts: ListParts, values: Sequence[Value]) -> Results:
    return None, list(list_parts.joined(e, parts, _described(values, 0)))


APPEND = "TensorListSetItem, appending"
"""The op of a node that writes the item behind the last one."""

PUSH_NEW, SET_NEW = "TensorListPushBack, new part", "TensorListSetItem, new part"
"""The ops of nodes that give what an item adds to the tensors of a list; the latter puts its row into the table."""


@dataclass(frozen=True, slots=True)
class PartRule:
    """An op on a list that is tensors.

    A node's inputs are these tensors, then those of the op on lists. Its results are, too: the first tensor of the list
    that it makes, the other results of the op, then the other tensors.

    Attributes:
        function: Adds its nodes.
        makes_list: Whether a list is its first result.
        others: The element types of its other results; None is that of the items.
    """

    function: Callable[[Emitter, Node, ListParts, Sequence[Value]], Results]
    makes_list: bool = False
    others: Sequence[DType | None] = (None,)

    def apply(self, e: Emitter, node: Node, parts: ListParts, values: Sequence[Value]) -> Results:
        """Add the nodes of `node` for a list and its other operands. Raises NeedsShapeError, and ShapeError."""
        if parts.unwritten is not None and not (self.function is _set and parts.next_is(values[0], grows=grows(node))):
            parts = parts.whole(e)
        return self.function(e, node, parts, values)

    def emit(self, e: Emitter, node: Node, values: Sequence[Value]) -> Sequence[Value]:
        """Return the results of `node`, whose attribute says what tensors its list is."""
        form: ListForm = node.attr(FORM)
        count = len(form.dtypes)
        parts, found = self.apply(e, node, ListParts(form, tuple(values[:count])), values[count:])
        return found if parts is None else [parts.values[0], *found, *parts.values[1:]]

    def dtype_of(self, node: Node, index: int) -> DType:
        """Return the element type of result `index` of `node`."""
        form: ListForm = node.attr(FORM)
        if not self.makes_list:
            return self.other_dtype(form, index)
        first, *rest = form.dtypes
        return [first, *(self.other_dtype(form, place) for place in range(len(self.others))), *rest][index]

    def other_dtype(self, form: ListForm, place: int) -> DType:
        """Return the element type of a result that is no list."""
        return self.others[place] or form.dtype

    def part_index(self, place: int) -> int:
        """Return which result is the tensor number `place` of the list."""
        return place + len(self.others) if place else 0


PART_RULES = {
    APPEND: PartRule(_push, makes_list=True, others=()),
    PUSH_NEW: PartRule(_push_new, makes_list=True, others=()),
    SET_NEW: PartRule(_set_new, makes_list=True, others=()),
    "TensorListConcat": PartRule(_join, others=(None, dtypes.i64)),
    "TensorListConcatV2": PartRule(_join, others=(None, dtypes.i64)),
    "TensorListGather": PartRule(_gather),
    "TensorListGetItem": PartRule(_get),
    "TensorListLength": PartRule(_length, others=(dtypes.i32,)),
    "TensorListPopBack": PartRule(_pop, makes_list=True),
    "TensorListPushBack": PartRule(_push, makes_list=True, others=()),
    "TensorListSetItem": PartRule(_set, makes_list=True, others=()),
    "TensorListStack": PartRule(_stack),
}
"""Op of a NodeDef on a list -> what it does where the list is tensors."""

PREFIX = "_Parts"
"""What the op of a node whose list is tensors begins with."""
