"""Lists of tensors whose items lie in one tensor: they can be read and written without the list itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from treadle import dtypes
from treadle.dtypes import DType
from treadle.errors import TreadleError
from treadle.frontends.core_bodies import is_known
from treadle.frontends.deferred_nodes import NeedsShapeError
from treadle.frontends.tensorflow.calls import add_call
from treadle.frontends.tensorflow.emitter import Emitter
from treadle.frontends.tensorflow.list_ops import declared_dims, dims_in, rows
from treadle.frontends.tensorflow.list_parts import ListForm, ListParts, form_of, of_rows, of_unwritten
from treadle.frontends.tensorflow.list_table import ListRule
from treadle.frontends.tensorflow.lists import Dims, TensorList, fits, list_array
from treadle.frontends.tensorflow.node import Node
from treadle.frontends.tensorflow.node_rules import NodeRule
from treadle.frontends.tensorflow.part_rules import PART_RULES, PartRule, grows
from treadle.graph.dim import at_least, equals, maximum
from treadle.graph.graph import Graph, unlink
from treadle.graph.node import Node as GraphNode
from treadle.graph.shape import is_static
from treadle.graph.value import Value
from treadle.ops.op import Array
from treadle.ops.sizes import known_sizes, may_be_numbers

_IDENTITIES = ("identity",)


@dataclass(frozen=True, slots=True)
class Items:
    """The items of a list.

    Attributes:
        dtype: Their element type.
        dims: What is declared of their shape.
        count: How many there are.
        tensor: All of them, stacked; None if none was written.
        once: Whether the list is one of TensorFlow 1: each item may be written once.
        clears: Whether a read removes the item.
        infers: Whether the list takes the shape of its items from the first one written.
    """

    dtype: DType
    dims: Dims
    count: int
    tensor: Value | None = None
    once: bool = False
    clears: bool = False
    infers: bool = False

    def form(self) -> tuple[DType, tuple[int, ...]] | None:
        """Return the dtype and shape of an item; None if it is not known."""
        return None if self.tensor is None else (self.dtype, self.tensor.static_shape[1:])

    def parts(self, e: Emitter, form: ListForm) -> ListParts:
        """Return the list as the tensors that `form` says. If no item was written, all are counted as such."""
        if self.tensor is not None:
            return of_rows(e, form, self.tensor)
        unwritten = None if equals(self.count, 0) else e.sizes(self.count, dtypes.i64)
        return replace(of_unwritten(e, form, 0), unwritten=unwritten)


class ListItems:
    """The items of lists of a graph, as far as they are known to lie in one tensor.

    If it `defers`, a list whose length or items have sizes that depend on data is made once these are known.
    """

    def __init__(self, *, defers: bool = False) -> None:
        self._defers = defers
        self._items: dict[Value, Items] = {}
        self._parts: dict[Value, ListParts] = {}

    def of(self, held: Value) -> Items | None:
        """Return the items of a list."""
        return self._items.get(_source(held))

    def parts_of(self, held: Value) -> ListParts | None:
        """Return the tensors that a list is."""
        return self._parts.get(_source(held))

    def is_known(self, value: Value) -> bool:
        """Return whether the shape of `value` is known, or those of the tensors that a list is."""
        parts = self.parts_of(value)
        return all(map(is_known, (value,) if parts is None else parts.operands))

    def emit(
        self, e: Emitter, node: Node, values: Sequence[Value], rule: NodeRule | ListRule | PartRule
    ) -> Sequence[Value]:
        """Return the results of `node`, whose rule is this one, and take in the list that it makes. Raises as rules."""
        read = self._read(e, node, values)
        if read is not None:
            return read
        if self._defers:
            self._needs(node, values)
        found = rule.emit(e, node, values)
        self._note(node, values, found)
        return found

    def _needs(self, node: Node, values: Sequence[Value]) -> None:
        """Raise NeedsShapeError if `node` makes a list whose length or items have sizes that only the run knows."""
        place = _COUNTS.get(node.op)
        if place is not None and _number(values[place]) is None and may_be_numbers(values[place]):
            raise NeedsShapeError(values[place])
        place = _TENSORS.get(node.op)
        if place is not None and (values[place].shape is None or not is_static(values[place].static_shape)):
            raise NeedsShapeError

    def _note(self, node: Node, values: Sequence[Value], results: Sequence[Value]) -> None:
        """Take in a node that makes a list."""
        make = _MAKES.get(node.op)
        items = None if make is None or not values else make(self, node, values)
        if items is not None:
            self._items.update(dict.fromkeys(results, items))

    def _read(self, e: Emitter, node: Node, values: Sequence[Value]) -> list[Value] | None:
        """Return the results of a node that reads a list; None if the list itself must be read."""
        before = len(e.graph.nodes)
        rule, parts = PART_RULES.get(node.op), self._parts_for(e, node, values)
        if rule is not None and parts is not None:
            try:
                made, others = rule.apply(e, node, parts, values[1:])
            except TreadleError:  # the run reports it
                for added in e.graph.nodes[before:]:
                    unlink(added)
                del e.graph.nodes[before:]
                return None
            return others if made is None else [self.add_parts(e, node, made), *others]
        read = _READS.get(node.op)
        items = self.of(values[0]) if read is not None and values else None
        found = None if read is None or items is None else read(e, node, values, items)
        return None if found is None else [found]

    def _parts_for(self, e: Emitter, node: Node, values: Sequence[Value]) -> ListParts | None:
        """Return the tensors that the list is which `node` reads or changes; None if the list itself must be there."""
        rule = PART_RULES.get(node.op)
        if rule is None or not values:
            return None
        parts, items = self.parts_of(values[0]), self.of(values[0])
        if parts is None and rule.makes_list and items is not None and not items.once:
            shape = values[-1].shape if items.tensor is None else items.tensor.static_shape[1:]
            form = form_of(items.dtype, items.dims, None if shape is None else len(shape))
            parts = None if form is None else items.parts(e, form)
        may_grow = grows(node) and parts is not None and not parts.next_is(values[1], grows=True)
        return None if may_grow else parts

    def add(self, e: Emitter, node: Node, items: Items) -> Value:
        """Return a list of these items, a result of `node`. It is made only if something needs the list itself."""
        assert items.tensor is not None
        maker = Node(node.name, "TensorListFromTensor", [])
        (made,) = add_call(e, maker, [items.tensor], ListOf(replace(items, tensor=None)), [dtypes.string])
        made.shape = ()
        self._items[made] = items
        return made

    def add_parts(self, e: Emitter, node: Node, parts: ListParts) -> Value:
        """Return a list that is these tensors, a result of `node`. It is made only if something needs itself."""
        maker = Node(node.name, "TensorListFromTensor", [])
        (made,) = add_call(e, maker, parts.operands, ListOfParts(parts.form), [dtypes.string])
        made.shape = ()
        self._parts[made] = parts
        return made


class ListOfParts:
    """Makes a list of the tensors that it is."""

    def __init__(self, form: ListForm) -> None:
        self._form = form

    def __call__(self, arrays: Sequence[Array]) -> list[Array]:
        form, items = self._form, rows(arrays[0])
        if not form.stacked:
            held, table = arrays[:2]
            items = [None if row[0] < 0 else _item_of(held, row) for row in table]
        if form.counted:
            items = items[: int(arrays[len(form.dtypes) - 1])]
        if len(arrays) > len(form.dtypes):
            items += [None] * int(arrays[-1])
        return [list_array(TensorList(form.dtype, form.dims, items))]


def _item_of(held: Array, row: Array) -> Array:
    start, *shape = row.tolist()
    return held[start : start + math.prod(shape)].reshape(shape)


class ListOf:
    """Makes a list of the items that the first array has."""

    def __init__(self, items: Items) -> None:
        self._items = items

    def __call__(self, arrays: Sequence[Array]) -> list[Array]:
        items = self._items
        flags = {"once": items.once, "clears": items.clears, "infers": items.infers}
        return [list_array(TensorList(items.dtype, items.dims, rows(arrays[0]), **flags))]


def drop_unread_lists(graph: Graph) -> None:
    """Remove the nodes of `graph` that make lists which nothing reads, since their items are known."""
    graph.drop_unread(_makes_lists)


def _makes_lists(node: GraphNode) -> bool:
    return node.op == "call" and bool(node.outputs) and all(value.dtype is dtypes.string for value in node.outputs)


def _source(held: Value) -> Value:
    while held.producer is not None and held.producer.op in _IDENTITIES:
        held = held.producer.operand(0)
    return held


def _number(value: Value) -> int | None:
    found = known_sizes(value)
    return found[0] if found is not None and len(found) == 1 else None


def _length_of(value: Value) -> int | None:
    """Return the length that a list is made with; None if it is not known, or none."""
    count = _number(value)
    return None if count is None or count < 0 else maximum(count, 0)


def _reserve(_: ListItems, node: Node, values: Sequence[Value]) -> Items | None:
    count = _length_of(values[1])
    if count is None or values[0].data is None:
        return None
    return Items(node.dtype("element_dtype"), dims_in(values[0].data), count)


def _empty(_: ListItems, node: Node, values: Sequence[Value]) -> Items | None:
    return None if values[0].data is None else Items(node.dtype("element_dtype"), dims_in(values[0].data), 0)


def _new_array(_: ListItems, node: Node, values: Sequence[Value]) -> Items | None:
    count = _length_of(values[0])
    if count is None or node.attr("dynamic_size", False):
        return None
    clears, infers = bool(node.attr("clear_after_read", True)), bool(node.attr("identical_element_shapes", False))
    return Items(node.dtype("dtype"), declared_dims(node), count, once=True, clears=clears, infers=infers)


def _from_tensor(_: ListItems, node: Node, values: Sequence[Value]) -> Items | None:
    tensor = values[0]
    if tensor.shape is None or not is_static(tensor.shape) or not tensor.shape or values[1].data is None:
        return None
    dims = dims_in(values[1].data)
    if not fits(dims, tensor.static_shape[1:]):
        return None
    return Items(node.dtype("element_dtype"), dims, tensor.static_shape[0], tensor)


def _scattered(lists: ListItems, _: Node, values: Sequence[Value]) -> Items | None:
    items, tensor = lists.of(values[0]), values[2]
    if items is None or items.tensor is not None or not _counts(values[1], items.count):
        return None
    if tensor.shape is None or not is_static(tensor.shape) or not tensor.shape or tensor.dtype != items.dtype:
        return None
    if not equals(tensor.static_shape[0], items.count) or not fits(items.dims, tensor.static_shape[1:]):
        return None
    return replace(items, tensor=tensor)


def _counts(indices: Value, count: int) -> bool:
    """Return whether the indices are known to be 0, 1, ... below `count`."""
    known = known_sizes(indices)
    if known is not None:
        return len(known) == count and list(known) == list(range(len(known)))
    made = indices.producer
    if made is None or made.op != "range":
        return False
    first, end, step = (_number(made.operand(place)) for place in range(3))
    return (first, step) == (0, 1) and end is not None and equals(end, count)


def _stacked(_: Emitter, node: Node, values: Sequence[Value], items: Items) -> Value | None:
    wanted = int(node.attr("num_elements", -1))
    if items.tensor is None or (wanted >= 0 and not equals(wanted, items.count)) or values[1].data is None:
        return None
    dims = dims_in(values[1].data)
    if equals(items.count, 0) and not _is_complete(dims) and not _is_complete(items.dims):
        return None
    return items.tensor if fits(dims, items.tensor.static_shape[1:]) else None


def _is_complete(dims: Dims) -> bool:
    return dims is not None and None not in dims


def _gathered(_: Emitter, __: Node, values: Sequence[Value], items: Items) -> Value | None:
    return items.tensor if items.tensor is not None and _counts(values[1], items.count) else None


def _item(e: Emitter, _: Node, values: Sequence[Value], items: Items) -> Value | None:
    index = _number(values[1])
    if items.tensor is None or index is None or not (at_least(index, 0) and at_least(items.count - index, 1)):
        return None
    return e.add("gather", items.tensor, e.sizes(index, dtypes.i64), axis=0)


def _length(e: Emitter, _: Node, __: Sequence[Value], items: Items) -> Value | None:
    return e.sizes(items.count, dtypes.i32)


_MAKES = {
    "EmptyTensorList": _empty,
    "TensorArrayScatterV3": _scattered,
    "TensorArrayV3": _new_array,
    "TensorListFromTensor": _from_tensor,
    "TensorListReserve": _reserve,
}
"""Op of a NodeDef that makes a list -> returns its items; None if they do not lie in one tensor."""

_COUNTS = {"TensorArrayV3": 0, "TensorListReserve": 1}
"""Op of a NodeDef that makes a list without items -> the operand that is its length."""

_TENSORS = {"TensorArrayScatterV3": 2, "TensorListFromTensor": 0}
"""Op of a NodeDef that makes a list of the rows of a tensor -> this operand."""

_READS = {
    "TensorArrayGatherV3": _gathered,
    "TensorArraySizeV3": _length,
    "TensorListGetItem": _item,
    "TensorListLength": _length,
    "TensorListStack": _stacked,
}
"""Op of a NodeDef that reads a list -> returns its result from the items; None if it needs the list itself."""
