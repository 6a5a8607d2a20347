"""The ops on lists of tensors: the TensorList ops of TensorFlow 2, and the TensorArray ops of TensorFlow 1.

Each is a function of a node and its arrays, and runs as a Python step. TensorArray ops read the list from the input
that is the flow in the file, and have no handle (see `tensor_arrays`). They leave their operands unchanged, except that
reads may clear items; single items are not copied. All raise KernelError for an array that holds no list, and what
TensorList raises.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from treadle.dtypes import DType
from treadle.errors import KernelError
from treadle.frontends.tensorflow.lists import MOST_ITEMS, Dims, TensorList, list_array, list_in, merged_dims
from treadle.frontends.tensorflow.node import Node
from treadle.frontends.tensorflow.node_rules import dtype_by_spec
from treadle.ops.op import Array


def dims_in(array: Array) -> Dims:
    """Return the shape that a tensor describes; -1 stands for an unknown size."""
    return None if array.ndim == 0 else tuple(None if size < 0 else int(size) for size in array.tolist())


def declared_dims(node: Node) -> Dims:
    """Return the shape of items in the attributes of the node."""
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
    return dtype_by_spec(node, name)


def reserve(node: Node, arrays: Sequence[Array]) -> list[Array]:
    """Return a list of arrays[1] unwritten items of shape arrays[0]. Raises KernelError for an invalid count."""
    return [list_array(TensorList(_dtype(node), dims_in(arrays[0]), [None] * _count(arrays[1])))]


def empty(node: Node, arrays: Sequence[Array]) -> list[Array]:
    """Return an empty list for items of shape arrays[0]. The capacity arrays[1] is ignored."""
    return [list_array(TensorList(_dtype(node), dims_in(arrays[0]), []))]


def new_array(node: Node, arrays: Sequence[Array]) -> list[Array]:
    """Return a TensorArray of arrays[0] items, twice: as handle and as flow. Raises KernelError as `reserve`."""
    made = list_array(
        TensorList(
            _dtype(node, "dtype"),
            declared_dims(node),
            [None] * _count(arrays[0]),
            once=True,
            clears=bool(node.attr("clear_after_read", True)),
            grows=bool(node.attr("dynamic_size", False)),
            infers=bool(node.attr("identical_element_shapes", False)),
        )
    )
    return [made, made]


def rows(tensor: Array) -> list[Array | None]:
    """Return the slices along the first axis. Raises KernelError for a scalar."""
    if tensor.ndim == 0:
        raise KernelError("Tensor must be at least a vector, but saw shape: []")
    return [tensor[place, ...] for place in range(len(tensor))]


def from_tensor(node: Node, arrays: Sequence[Array]) -> list[Array]:
    """Return a list of the rows of arrays[0].

    Raises KernelError for a scalar, or if rows are not of shape arrays[1].
    """
    tensor, dims = arrays[0], dims_in(arrays[1])
    items = rows(tensor)
    merged_dims(dims, tensor.shape[1:])
    return [list_array(TensorList(_dtype(node), dims, items))]


def _index(array: Array) -> int:
    return int(array.reshape(()))


def get_item(_: Node, arrays: Sequence[Array]) -> list[Array]:
    """Return item arrays[1], zeros if it was never written. Raises KernelError if there is none of shape arrays[2]."""
    return [list_in(arrays[0]).get(_index(arrays[1]), dims_in(arrays[2]) if len(arrays) > 2 else None)]


def set_item(node: Node, arrays: Sequence[Array]) -> list[Array]:
    """Return the list with arrays[2] as item arrays[1]; it grows if the node or the list allows it."""
    index = _index(arrays[1])
    made = list_in(arrays[0]).derive(index)
    made.set(index, arrays[2], resize=bool(node.attr("resize_if_index_out_of_bounds", False)))
    return [list_array(made)]


def push_back(_: Node, arrays: Sequence[Array]) -> list[Array]:
    """Return the list with arrays[1] appended."""
    held = list_in(arrays[0])
    made = held.derive(len(held.items))
    made.push(arrays[1])
    return [list_array(made)]


def pop_back(_: Node, arrays: Sequence[Array]) -> list[Array]:
    """Return the list without its last item, and that item. Raises KernelError if there is none of shape arrays[1]."""
    held = list_in(arrays[0])
    last = len(held.items) - 1
    if last < 0:
        raise KernelError("Trying to pop from an empty list.")
    made = held.derive(last)
    found = made.get(last, dims_in(arrays[1]))
    made.items.pop()
    return [list_array(made), found]


def length(_: Node, arrays: Sequence[Array]) -> list[Array]:
    """Return the number of items, written or not: i32[]."""
    return [np.array(len(list_in(arrays[0]).items), np.int32)]


def element_shape(node: Node, arrays: Sequence[Array]) -> list[Array]:
    """Return what is known of the shape of all items: -1 for an unknown rank or dimension."""
    dims = list_in(arrays[0]).dims
    found = -1 if dims is None else [-1 if dim is None else dim for dim in dims]
    return [np.array(found, _dtype(node, "shape_type").numpy)]


def resize(_: Node, arrays: Sequence[Array]) -> list[Array]:
    """Return a list of the first arrays[1] items, with unwritten ones appended. Raises KernelError as `reserve`."""
    held, count = list_in(arrays[0]), _count(arrays[1])
    items = held.items.to_list()[:count]
    return [list_array(held.of(items + [None] * (count - len(items))))]


def stack(node: Node, arrays: Sequence[Array]) -> list[Array]:
    """Return all items stacked, with zeros for unwritten ones.

    Raises KernelError if their number is not the declared one.
    """
    held, wanted = list_in(arrays[0]), int(node.attr("num_elements", -1))
    if wanted not in (-1, len(held.items)):
        raise KernelError(
            f"Operation expected a list with {wanted} elements but got a list with {len(held.items)} elements."
        )
    return [held.stacked_items(range(len(held.items)), dims_in(arrays[1]))]


def gather(node: Node, arrays: Sequence[Array]) -> list[Array]:
    """Return the items at arrays[1] stacked, with zeros for unwritten ones."""
    dims = dims_in(arrays[2]) if len(arrays) > 2 else declared_dims(node)
    return [list_in(arrays[0]).stacked_items(arrays[1].reshape(-1).tolist(), dims)]


def concat(_: Node, arrays: Sequence[Array]) -> list[Array]:
    """Return all items concatenated along their first axis, and their lengths (i64[n])."""
    dims = dims_in(arrays[1]) if len(arrays) > 1 else None
    return list(list_in(arrays[0]).concatenated(dims))


def _with_rows(held: TensorList, indices: Array, tensor: Array, *, resize: bool) -> Array:
    """Write the rows of `tensor` into `held` at `indices`, and return it as an array."""
    items = rows(tensor)
    if indices.size != len(items):
        raise KernelError(f"Expected {len(items)} indices, one for each row of the tensor, but got {indices.size}")
    for index, item in zip(indices.reshape(-1).tolist(), items, strict=True):
        if index < 0:
            raise KernelError(f"Indices in TensorListScatter must all be non-negative, but got {index}")
        assert item is not None
        held.set(index, item, resize=resize)
    return list_array(held)


def scatter(node: Node, arrays: Sequence[Array]) -> list[Array]:
    """Return a list with the rows of arrays[0] at arrays[1]. Its length is arrays[3], or for -1 as large as needed."""
    tensor, indices, dims = arrays[:3]
    count = int(arrays[3].reshape(())) if len(arrays) > 3 else -1
    held = TensorList(_dtype(node), dims_in(dims), [None] * max(count, 0))
    return [_with_rows(held, indices, tensor, resize=count < 0)]


def scatter_into(_: Node, arrays: Sequence[Array]) -> list[Array]:
    """Return the list with the rows of arrays[1] at arrays[2], as long as needed."""
    return [_with_rows(list_in(arrays[0]).copy(), arrays[2], arrays[1], resize=True)]


def array_scatter(_: Node, arrays: Sequence[Array]) -> list[Array]:
    """Return the list with the rows of arrays[2] at arrays[1]; it grows only if the TensorArray is dynamic."""
    return [_with_rows(list_in(arrays[0]).copy(), arrays[1], arrays[2], resize=False)]


def parts(tensor: Array, lengths: Array) -> list[Array]:
    """Split `tensor` along its first axis. Raises KernelError if the lengths do not add up to its size."""
    if tensor.ndim == 0:
        raise KernelError("Tensor must be at least a vector, but saw shape: []")
    if int(lengths.sum()) != len(tensor) or (lengths < 0).any():
        raise KernelError(
            f"Expected sum of lengths to be equal to values.shape[0], but sum of lengths is {int(lengths.sum())} and "
            f"value's shape is: {list(tensor.shape)}"
        )
    return np.split(tensor, np.cumsum(lengths)[:-1]) if lengths.size else []


def split(node: Node, arrays: Sequence[Array]) -> list[Array]:
    """Return a list of the pieces of arrays[0], of lengths arrays[2] and shape arrays[1]."""
    dims = dims_in(arrays[1])
    found = TensorList(_dtype(node), dims, [])
    for part in parts(arrays[0], arrays[2]):
        found.push(part)
    return [list_array(found)]


def array_split(_: Node, arrays: Sequence[Array]) -> list[Array]:
    """Return a TensorArray of the pieces of arrays[1], of lengths arrays[2].

    Raises KernelError if they exceed its size.
    """
    made = list_in(arrays[0]).copy()
    found = parts(arrays[1], arrays[2])
    if len(found) > len(made.items) and not made.grows:
        raise KernelError(
            f"TensorArray's size is not equal to the size of lengths ({len(made.items)} vs. {len(found)}), and the "
            "TensorArray is not marked as dynamically resizeable"
        )
    for place, part in enumerate(found):
        made.set(place, part)
    return [list_array(made)]


def concat_lists(node: Node, arrays: Sequence[Array]) -> list[Array]:
    """Return the items of both lists in one list. Raises KernelError if their shapes contradict each other."""
    first, second = list_in(arrays[0]), list_in(arrays[1])
    return [
        list_array(
            TensorList(
                _dtype(node), merged_dims(first.dims, second.dims), [*first.items.to_list(), *second.items.to_list()]
            )
        )
    ]
