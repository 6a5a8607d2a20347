"""The table of ops on lists of tensors: function, number of inputs, and what is known of the results in advance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from treadle.dtypes import DType
from treadle.frontends.faults import Fault
from treadle.frontends.tensorflow import list_ops
from treadle.frontends.tensorflow.calls import add_call
from treadle.frontends.tensorflow.emitter import Emitter
from treadle.frontends.tensorflow.list_ops import declared_dims, dims_in
from treadle.frontends.tensorflow.lists import Dims
from treadle.frontends.tensorflow.node import Node
from treadle.frontends.tensorflow.node_rules import dtype_by_spec, result_dtype
from treadle.graph.shape import elements, is_static
from treadle.graph.value import Value
from treadle.ops.op import Array

LIST = "=string"
"""The element type of a list: Python objects."""


@dataclass(frozen=True, slots=True)
class ListRule:
    """An op on lists: its function, number of inputs, and the dtypes of its results (see NodeRule).

    `shape` returns what is known in advance of the shape of the first result. Lists and counts have rank 0.
    """

    function: Callable[[Node, Sequence[Array]], list[Array]]
    inputs: int
    dtype: str = LIST
    results: str = ""
    shape: Callable[[Node, Sequence[Value]], Dims] | None = None

    def emit(self, e: Emitter, node: Node, values: Sequence[Value]) -> list[Value]:
        """Return the results of `node` for `values`. Raises Fault for a wrong number of them."""
        if len(values) != self.inputs:
            raise Fault(f"wanted {self.inputs} inputs, got {len(values)}")
        kinds = self.dtype.split()
        found = add_call(e, node, values, partial(self.function, node), [dtype_by_spec(node, kind) for kind in kinds])
        for kind, value in zip(kinds, found, strict=True):
            if kind in (LIST, "=i32"):
                value.shape = ()
        dims = None if self.shape is None else self.shape(node, values)
        if dims is not None and None not in dims:
            found[0].shape = tuple(dim for dim in dims if dim is not None)
        return found

    def dtype_of(self, node: Node, index: int) -> DType:
        """Return the element type of result `index` of `node`."""
        return result_dtype(node, self.dtype, index)


def _described(value: Value) -> Dims:
    return None if value.data is None else dims_in(value.data)


def _item(_: Node, values: Sequence[Value]) -> Dims:
    return _described(values[2])


def _popped(_: Node, __: Sequence[Value]) -> Dims:
    return ()


def _stacked(node: Node, values: Sequence[Value]) -> Dims:
    dims, count = _described(values[1]), int(node.attr("num_elements", -1))
    return None if dims is None or count < 0 else (count, *dims)


def _gathered(node: Node, values: Sequence[Value]) -> Dims:
    dims = _described(values[2]) if len(values) > 2 else declared_dims(node)
    shape = values[1].shape
    return None if dims is None or shape is None or not is_static(shape) else (elements(values[1].static_shape), *dims)


LISTS: dict[str, ListRule] = {
    "EmptyTensorList": ListRule(list_ops.empty, 2),
    "TensorArrayConcatV3": ListRule(list_ops.concat, 1, "dtype =i64", "value lengths"),
    "TensorArrayGatherV3": ListRule(list_ops.gather, 2, "dtype", shape=_gathered),
    "TensorArrayReadV3": ListRule(list_ops.get_item, 2, "dtype"),
    "TensorArrayScatterV3": ListRule(list_ops.array_scatter, 3),
    "TensorArraySizeV3": ListRule(list_ops.length, 1, "=i32"),
    "TensorArraySplitV3": ListRule(list_ops.array_split, 3),
    "TensorArrayV3": ListRule(list_ops.new_array, 1, "=string =string", "handle flow"),
    "TensorArrayWriteV3": ListRule(list_ops.set_item, 3),
    "TensorListConcat": ListRule(list_ops.concat, 1, "element_dtype =i64", "tensor lengths"),
    "TensorListConcatLists": ListRule(list_ops.concat_lists, 2),
    "TensorListConcatV2": ListRule(list_ops.concat, 3, "element_dtype =i64", "tensor lengths"),
    "TensorListElementShape": ListRule(list_ops.element_shape, 1, "shape_type"),
    "TensorListFromTensor": ListRule(list_ops.from_tensor, 2),
    "TensorListGather": ListRule(list_ops.gather, 3, "element_dtype", shape=_gathered),
    "TensorListGetItem": ListRule(list_ops.get_item, 3, "element_dtype", shape=_item),
    "TensorListLength": ListRule(list_ops.length, 1, "=i32"),
    "TensorListPopBack": ListRule(list_ops.pop_back, 2, "=string element_dtype", "output_handle tensor", _popped),
    "TensorListPushBack": ListRule(list_ops.push_back, 2),
    "TensorListReserve": ListRule(list_ops.reserve, 2),
    "TensorListResize": ListRule(list_ops.resize, 2),
    "TensorListScatter": ListRule(list_ops.scatter, 3),
    "TensorListScatterIntoExistingList": ListRule(list_ops.scatter_into, 3),
    "TensorListScatterV2": ListRule(list_ops.scatter, 4),
    "TensorListSetItem": ListRule(list_ops.set_item, 3),
    "TensorListSplit": ListRule(list_ops.split, 3),
    "TensorListStack": ListRule(list_ops.stack, 2, "element_dtype", shape=_stacked),
}
"""Op of a NodeDef -> what it is."""
