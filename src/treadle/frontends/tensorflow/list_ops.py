"""The ops of lists of tensors: the TensorList family of TensorFlow 2, and the TensorArray of TensorFlow 1.

Each is a function of a node and its arrays, and runs as a Python task. Those of a TensorArray read the list where the file
has the flow, and no handle (see `flows`). A list that is given stays as it is, except for items that are gone once read;
single items are not copied. All raise KernelError for an array that holds no list, and for what a list refuses (see
`TensorList`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from treadle.dtypes import DType
from treadle.errors import KernelError
from treadle.frontends.tensorflow.forms import stated_dtype
from treadle.frontends.tensorflow.lists import MOST_ITEMS, Dims, TensorList, agreed, held_in, wrapped
from treadle.frontends.tensorflow.node import Node
from treadle.ops.op import Array


def dims_in(array: Array) -> Dims:
    """The shape that a tensor describes; -1 is unknown."""
    return None if array.ndim == 0 else tuple(None if size < 0 else int(size) for size in array.tolist())


def stated_dims(node: Node) -> Dims:
    """The shape of items that the node states."""
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
    """A list of arrays[1] places of shape arrays[0], none written. Raises KernelError for a number below 0 or too large."""
    return [wrapped(TensorList(_dtype(node), dims_in(arrays[0]), [None] * _count(arrays[1])))]


def empty(node: Node, arrays: Sequence[Array]) -> list[Array]:
    """A list without items, which are to have shape arrays[0]; the most there may be, arrays[1], is not heeded."""
    return [wrapped(TensorList(_dtype(node), dims_in(arrays[0]), []))]


def new_array(node: Node, arrays: Sequence[Array]) -> list[Array]:
    """A TensorArray of arrays[0] places, twice: as handle and as flow. Raises KernelError as `reserve`."""
    made = wrapped(
        TensorList(
            _dtype(node, "dtype"),
            stated_dims(node),
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
    """A list of the rows of arrays[0]. Raises KernelError for a scalar, or if rows are not of shape arrays[1]."""
    tensor, dims = arrays[0], dims_in(arrays[1])
    items = rows(tensor)
    agreed(dims, tensor.shape[1:])
    return [wrapped(TensorList(_dtype(node), dims, items))]


def _index(array: Array) -> int:
    return int(array.reshape(()))


def get_item(_: Node, arrays: Sequence[Array]) -> list[Array]:
    """Item arrays[1]; zeros if it was never written. Raises KernelError if there is none, or it is not of shape arrays[2]."""
    return [held_in(arrays[0]).get(_index(arrays[1]), dims_in(arrays[2]) if len(arrays) > 2 else None)]


def set_item(node: Node, arrays: Sequence[Array]) -> list[Array]:
    """A list with arrays[2] at place arrays[1], longer where the node or the list says that it may grow."""
    index = _index(arrays[1])
    made = held_in(arrays[0]).handed_on(index)
    made.set(index, arrays[2], resize=bool(node.attr("resize_if_index_out_of_bounds", False)))
    return [wrapped(made)]


def push_back(_: Node, arrays: Sequence[Array]) -> list[Array]:
    """A list with arrays[1] behind its last item."""
    held = held_in(arrays[0])
    made = held.handed_on(len(held.items))
    made.push(arrays[1])
    return [wrapped(made)]


def pop_back(_: Node, arrays: Sequence[Array]) -> list[Array]:
    """A list without its last item, and that item. Raises KernelError if there is none, or it is not of shape arrays[1]."""
    held = held_in(arrays[0])
    last = len(held.items) - 1
    if last < 0:
        raise KernelError("Trying to pop from an empty list.")
    made = held.handed_on(last)
    found = made.get(last, dims_in(arrays[1]))
    made.items.drop()
    return [wrapped(made), found]


def length(_: Node, arrays: Sequence[Array]) -> list[Array]:
    """How many places there are, written or not: i32[]."""
    return [np.array(len(held_in(arrays[0]).items), np.int32)]


def element_shape(node: Node, arrays: Sequence[Array]) -> list[Array]:
    """What is known of the shape of every item: -1 for all of it, or for single dimensions."""
    dims = held_in(arrays[0]).dims
    found = -1 if dims is None else [-1 if dim is None else dim for dim in dims]
    return [np.array(found, _dtype(node, "shape_type").numpy)]


def resize(_: Node, arrays: Sequence[Array]) -> list[Array]:
    """A list of the first arrays[1] items; places that are new are not written. Raises KernelError as `reserve`."""
    held, count = held_in(arrays[0]), _count(arrays[1])
    items = held.items.listed()[:count]
    return [wrapped(held.of(items + [None] * (count - len(items))))]


def stack(node: Node, arrays: Sequence[Array]) -> list[Array]:
    """All items stacked, zeros for those never written. Raises KernelError if there are more or fewer than the node states."""
    held, wanted = held_in(arrays[0]), int(node.attr("num_elements", -1))
    if wanted not in (-1, len(held.items)):
        raise KernelError(
            f"Operation expected a list with {wanted} elements but got a list with {len(held.items)} elements."
        )
    return [held.gathered(range(len(held.items)), dims_in(arrays[1]))]


def gather(node: Node, arrays: Sequence[Array]) -> list[Array]:
    """The items at arrays[1] stacked, zeros for those never written."""
    dims = dims_in(arrays[2]) if len(arrays) > 2 else stated_dims(node)
    return [held_in(arrays[0]).gathered(arrays[1].reshape(-1).tolist(), dims)]


def concat(_: Node, arrays: Sequence[Array]) -> list[Array]:
    """All items one behind the other along their first axis, and how long each is (i64[n])."""
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
    """A list with the rows of arrays[0] at arrays[1]: of arrays[3] places, or (-1, or not given) of as many as that takes."""
    tensor, indices, dims = arrays[:3]
    count = int(arrays[3].reshape(())) if len(arrays) > 3 else -1
    held = TensorList(_dtype(node), dims_in(dims), [None] * max(count, 0))
    return [_placed(held, indices, tensor, resize=count < 0)]


def scatter_into(_: Node, arrays: Sequence[Array]) -> list[Array]:
    """A list with the rows of arrays[1] at arrays[2], longer where that takes it."""
    return [_placed(held_in(arrays[0]).copy(), arrays[2], arrays[1], resize=True)]


def array_scatter(_: Node, arrays: Sequence[Array]) -> list[Array]:
    """A list with the rows of arrays[2] at arrays[1], longer only if the TensorArray grows."""
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
    """A list of arrays[0] cut into pieces arrays[2] long, which have to be of shape arrays[1]."""
    dims = dims_in(arrays[1])
    found = TensorList(_dtype(node), dims, [])
    for part in parts(arrays[0], arrays[2]):
        found.push(part)
    return [wrapped(found)]


def array_split(_: Node, arrays: Sequence[Array]) -> list[Array]:
    """A TensorArray of arrays[1] cut into pieces arrays[2] long. Raises KernelError for more of them than places."""
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
    """The items of both lists. Raises KernelError if no shape is of the items of both."""
    first, second = held_in(arrays[0]), held_in(arrays[1])
    return [
        wrapped(
            TensorList(_dtype(node), agreed(first.dims, second.dims), [*first.items.listed(), *second.items.listed()])
        )
    ]
