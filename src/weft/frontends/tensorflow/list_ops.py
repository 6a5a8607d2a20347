"""The ops of lists of tensors: the TensorList family of TensorFlow 2, and the TensorArray of TensorFlow 1.

Each is a function of a node and its arrays, and runs as a Python task. Those of a TensorArray read the list where the file
has the flow, and no handle (see `flows`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from weft.dtypes import DType
from weft.errors import KernelError
from weft.frontends.faults import Fault
from weft.frontends.tensorflow.calls import add_call
from weft.frontends.tensorflow.emitter import Emitter
from weft.frontends.tensorflow.forms import stated_dtype
from weft.frontends.tensorflow.lists import MOST_ITEMS, Dims, TensorList, agreed, held_in, wrapped
from weft.frontends.tensorflow.node import Node
from weft.graph.shape import is_static
from weft.graph.value import Value
from weft.ops.op import Array

LIST = "=string"
"""The element type of a list: Python objects."""


@dataclass(frozen=True, slots=True)
class ListForm:
    """An op of lists: what computes its results, how many inputs it has, and of which dtypes the results are (see Form).

    `shape` is what is known of the shape of the first result beforehand; lists and counts have rank 0.
    """

    function: Callable[[Node, Sequence[Array]], list[Array]]
    inputs: int
    dtype: str = LIST
    results: str = ""
    shape: Callable[[Node, Sequence[Value]], Dims] | None = None

    def emit(self, e: Emitter, node: Node, values: Sequence[Value]) -> list[Value]:
        """The results of `node` on `values`. Raises Fault for a wrong number of them."""
        if len(values) != self.inputs:
            raise Fault(f"wanted {self.inputs} inputs, got {len(values)}")
        kinds = self.dtype.split()
        found = add_call(e, node, values, partial(self.function, node), [stated_dtype(node, kind) for kind in kinds])
        for kind, value in zip(kinds, found, strict=True):
            if kind in (LIST, "=i32"):
                value.shape = ()
        dims = None if self.shape is None else self.shape(node, values)
        if dims is not None and None not in dims:
            found[0].shape = tuple(dim for dim in dims if dim is not None)
        return found

    def dtype_of(self, node: Node, index: int) -> DType:
        """What result `index` of `node` is."""
        specs = self.dtype.split()
        return stated_dtype(node, specs[min(index, len(specs) - 1)])


def dims_in(array: Array) -> Dims:
    """The shape that a tensor describes; -1 is unknown."""
    return None if array.ndim == 0 else tuple(None if size < 0 else int(size) for size in array.tolist())


def _described(value: Value) -> Dims:
    return None if value.data is None else dims_in(value.data)


def _stated(node: Node) -> Dims:
    found: Dims = node.attr("element_shape", None)
    return found


def _count(array: Array) -> int:
    count = int(array.reshape(()))
    if not 0 <= count <= MOST_ITEMS:
        raise KernelError(
            f"The num_elements to reserve must be a non negative number up to {MOST_ITEMS}, but got {count}"
        )
    return count


def _dtype(node: Node, name: str = "element_dtype") -> DType:
    return stated_dtype(node, name)


def reserve(node: Node, arrays: Sequence[Array]) -> list[Array]:
    return [wrapped(TensorList(_dtype(node), dims_in(arrays[0]), [None] * _count(arrays[1])))]


def empty(node: Node, arrays: Sequence[Array]) -> list[Array]:
    return [wrapped(TensorList(_dtype(node), dims_in(arrays[0]), []))]


def new_array(node: Node, arrays: Sequence[Array]) -> list[Array]:
    made = wrapped(
        TensorList(
            _dtype(node, "dtype"),
            _stated(node),
            [None] * _count(arrays[0]),
            once=True,
            clears=bool(node.attr("clear_after_read", True)),
            grows=bool(node.attr("dynamic_size", False)),
            infers=bool(node.attr("identical_element_shapes", False)),
        )
    )
    return [made, made]


def rows(tensor: Array) -> list[Array | None]:
    """What lies along the first axis. Raises KernelError for a scalar."""
    if tensor.ndim == 0:
        raise KernelError("Tensor must be at least a vector, but saw shape: []")
    return [tensor[place, ...] for place in range(len(tensor))]


def from_tensor(node: Node, arrays: Sequence[Array]) -> list[Array]:
    tensor, dims = arrays[0], dims_in(arrays[1])
    items = rows(tensor)
    agreed(dims, tensor.shape[1:])
    return [wrapped(TensorList(_dtype(node), dims, items))]


def _index(array: Array) -> int:
    return int(array.reshape(()))


def get_item(_: Node, arrays: Sequence[Array]) -> list[Array]:
    return [held_in(arrays[0]).get(_index(arrays[1]), dims_in(arrays[2]) if len(arrays) > 2 else None)]


def set_item(node: Node, arrays: Sequence[Array]) -> list[Array]:
    index = _index(arrays[1])
    made = held_in(arrays[0]).handed_on(index)
    made.set(index, arrays[2], resize=bool(node.attr("resize_if_index_out_of_bounds", False)))
    return [wrapped(made)]


def push_back(_: Node, arrays: Sequence[Array]) -> list[Array]:
    held = held_in(arrays[0])
    made = held.handed_on(len(held.items))
    made.push(arrays[1])
    return [wrapped(made)]


def pop_back(_: Node, arrays: Sequence[Array]) -> list[Array]:
    held = held_in(arrays[0])
    last = len(held.items) - 1
    if last < 0:
        raise KernelError("Trying to pop from an empty list.")
    made = held.handed_on(last)
    found = made.get(last, dims_in(arrays[1]))
    made.items.drop()
    return [wrapped(made), found]


def length(_: Node, arrays: Sequence[Array]) -> list[Array]:
    return [np.array(len(held_in(arrays[0]).items), np.int32)]


def element_shape(node: Node, arrays: Sequence[Array]) -> list[Array]:
    dims = held_in(arrays[0]).dims
    found = -1 if dims is None else [-1 if dim is None else dim for dim in dims]
    return [np.array(found, _dtype(node, "shape_type").numpy)]


def resize(_: Node, arrays: Sequence[Array]) -> list[Array]:
    held, count = held_in(arrays[0]), _count(arrays[1])
    items = held.items.listed()[:count]
    return [wrapped(held.of(items + [None] * (count - len(items))))]


def stack(node: Node, arrays: Sequence[Array]) -> list[Array]:
    held, wanted = held_in(arrays[0]), int(node.attr("num_elements", -1))
    if wanted not in (-1, len(held.items)):
        raise KernelError(
            f"Operation expected a list with {wanted} elements but got a list with {len(held.items)} elements."
        )
    return [held.gathered(range(len(held.items)), dims_in(arrays[1]))]


def gather(node: Node, arrays: Sequence[Array]) -> list[Array]:
    dims = dims_in(arrays[2]) if len(arrays) > 2 else _stated(node)
    return [held_in(arrays[0]).gathered(arrays[1].reshape(-1).tolist(), dims)]


def concat(_: Node, arrays: Sequence[Array]) -> list[Array]:
    dims = dims_in(arrays[1]) if len(arrays) > 1 else None
    return list(held_in(arrays[0]).joined(dims))


def _placed(held: TensorList, indices: Array, tensor: Array, *, resize: bool) -> Array:
    """`held`, which is changed, with the rows of `tensor` at `indices`."""
    items = rows(tensor)
    if indices.size != len(items):
        raise KernelError(f"Expected {len(items)} indices, one for each row of the tensor, but got {indices.size}")
    for index, item in zip(indices.reshape(-1).tolist(), items, strict=True):
        if index < 0:
            raise KernelError(f"Indices in TensorListScatter must all be non-negative, but got {index}")
        assert item is not None
        held.set(index, item, resize=resize)
    return wrapped(held)


def scatter(node: Node, arrays: Sequence[Array]) -> list[Array]:
    tensor, indices, dims = arrays[:3]
    count = int(arrays[3].reshape(())) if len(arrays) > 3 else -1
    held = TensorList(_dtype(node), dims_in(dims), [None] * max(count, 0))
    return [_placed(held, indices, tensor, resize=count < 0)]


def scatter_into(_: Node, arrays: Sequence[Array]) -> list[Array]:
    return [_placed(held_in(arrays[0]).copy(), arrays[2], arrays[1], resize=True)]


def array_scatter(_: Node, arrays: Sequence[Array]) -> list[Array]:
    return [_placed(held_in(arrays[0]).copy(), arrays[1], arrays[2], resize=False)]


def parts(tensor: Array, lengths: Array) -> list[Array]:
    """`tensor` cut along its first axis. Raises KernelError if the lengths do not add up."""
    if tensor.ndim == 0:
        raise KernelError("Tensor must be at least a vector, but saw shape: []")
    if int(lengths.sum()) != len(tensor) or (lengths < 0).any():
        raise KernelError(
            f"Expected sum of lengths to be equal to values.shape[0], but sum of lengths is {int(lengths.sum())} and "
            f"value's shape is: {list(tensor.shape)}"
        )
    return np.split(tensor, np.cumsum(lengths)[:-1]) if lengths.size else []


def split(node: Node, arrays: Sequence[Array]) -> list[Array]:
    dims = dims_in(arrays[1])
    found = TensorList(_dtype(node), dims, [])
    for part in parts(arrays[0], arrays[2]):
        found.push(part)
    return [wrapped(found)]


def array_split(_: Node, arrays: Sequence[Array]) -> list[Array]:
    made = held_in(arrays[0]).copy()
    found = parts(arrays[1], arrays[2])
    if len(found) > len(made.items) and not made.grows:
        raise KernelError(
            f"TensorArray's size is not equal to the size of lengths ({len(made.items)} vs. {len(found)}), and the "
            "TensorArray is not marked as dynamically resizeable"
        )
    for place, part in enumerate(found):
        made.set(place, part)
    return [wrapped(made)]


def concat_lists(node: Node, arrays: Sequence[Array]) -> list[Array]:
    first, second = held_in(arrays[0]), held_in(arrays[1])
    return [
        wrapped(
            TensorList(_dtype(node), agreed(first.dims, second.dims), [*first.items.listed(), *second.items.listed()])
        )
    ]


def _item(_: Node, values: Sequence[Value]) -> Dims:
    return _described(values[2])


def _popped(_: Node, __: Sequence[Value]) -> Dims:
    return ()


def _stacked(node: Node, values: Sequence[Value]) -> Dims:
    dims, count = _described(values[1]), int(node.attr("num_elements", -1))
    return None if dims is None or count < 0 else (count, *dims)


def _gathered(node: Node, values: Sequence[Value]) -> Dims:
    dims = _described(values[2]) if len(values) > 2 else _stated(node)
    shape = values[1].shape
    return (
        None if dims is None or shape is None or not is_static(shape) else (int(np.prod(values[1].static_shape)), *dims)
    )


LISTS: dict[str, ListForm] = {
    "EmptyTensorList": ListForm(empty, 2),
    "TensorArrayConcatV3": ListForm(concat, 1, "dtype =i64", "value lengths"),
    "TensorArrayGatherV3": ListForm(gather, 2, "dtype", shape=_gathered),
    "TensorArrayReadV3": ListForm(get_item, 2, "dtype"),
    "TensorArrayScatterV3": ListForm(array_scatter, 3),
    "TensorArraySizeV3": ListForm(length, 1, "=i32"),
    "TensorArraySplitV3": ListForm(array_split, 3),
    "TensorArrayV3": ListForm(new_array, 1, "=string =string", "handle flow"),
    "TensorArrayWriteV3": ListForm(set_item, 3),
    "TensorListConcat": ListForm(concat, 1, "element_dtype =i64", "tensor lengths"),
    "TensorListConcatLists": ListForm(concat_lists, 2),
    "TensorListConcatV2": ListForm(concat, 3, "element_dtype =i64", "tensor lengths"),
    "TensorListElementShape": ListForm(element_shape, 1, "shape_type"),
    "TensorListFromTensor": ListForm(from_tensor, 2),
    "TensorListGather": ListForm(gather, 3, "element_dtype", shape=_gathered),
    "TensorListGetItem": ListForm(get_item, 3, "element_dtype", shape=_item),
    "TensorListLength": ListForm(length, 1, "=i32"),
    "TensorListPopBack": ListForm(pop_back, 2, "=string element_dtype", "output_handle tensor", _popped),
    "TensorListPushBack": ListForm(push_back, 2),
    "TensorListReserve": ListForm(reserve, 2),
    "TensorListResize": ListForm(resize, 2),
    "TensorListScatter": ListForm(scatter, 3),
    "TensorListScatterIntoExistingList": ListForm(scatter_into, 3),
    "TensorListScatterV2": ListForm(scatter, 4),
    "TensorListSetItem": ListForm(set_item, 3),
    "TensorListSplit": ListForm(split, 3),
    "TensorListStack": ListForm(stack, 2, "element_dtype", shape=_stacked),
}
"""Op of a NodeDef -> what it is."""
