"""tf.TensorArray.

In graphs it is a list of tensors that ops pass on, as in TensorFlow 2; eagerly a list that changes in place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from treadle.compat.tensorflow import context, control_flow, nest
from treadle.compat.tensorflow.convert import constant_in, convert_to_tensor, frozen
from treadle.compat.tensorflow.dispatch import call
from treadle.compat.tensorflow.dtypes import DType, as_dtype
from treadle.compat.tensorflow.errors import MisfitError, OutOfRangeError
from treadle.compat.tensorflow.graph import Graph
from treadle.compat.tensorflow.shape import TensorShape
from treadle.compat.tensorflow.tensor import EagerTensor, Tensor, constant_value
from treadle.dtypes import DType as CoreDType
from treadle.dtypes import i32, i64, string
from treadle.errors import KernelError
from treadle.frontends.tensorflow.list_ops import parts, rows
from treadle.frontends.tensorflow.list_storage import ListStorage
from treadle.frontends.tensorflow.list_table import LISTS
from treadle.frontends.tensorflow.lists import TensorList
from treadle.frontends.tensorflow.node import Node
from treadle.ops.op import Array, Info

_LIST = Info(string, ())
_ANY = TensorShape(None)


class TensorArray(nest.Composite):
    """An array of tensors of one dtype. See tf.TensorArray in TensorFlow's documentation.

    Elements that were never written read as zeros if their shape is known. In graphs a write returns a new array and
    leaves the old one unchanged; eagerly it changes the array, and an element can be read once unless
    `clear_after_read` is False.

    Args:
        dtype: the element type.
        size: the number of elements; an int or an int32 scalar.
        dynamic_size: whether writes beyond the end lengthen the array.
        clear_after_read: eagerly, whether a read removes the element; None for True.
        flow: the list of an existing array, in place of `size`.
        infer_shape: whether all elements have the same shape.
        element_shape: the shape of the elements, with None for unknown dimensions.

    tensor_array_name, handle, colocate_with_first_write_call and name have no effect on results.

    Raises:
        ValueError: neither `size` nor `flow`, or an element of the wrong shape.
        tf.errors.OutOfRangeError: eagerly, an index out of range. A run raises InvalidArgumentError.
        tf.errors.InvalidArgumentError: an element that cannot be read, or has the wrong dtype.
    """

    def __init__(
        self,
        dtype: Any,
        size: Any = None,
        dynamic_size: bool | None = None,
        clear_after_read: bool | None = None,
        tensor_array_name: str | None = None,
        handle: Any = None,
        flow: Any = None,
        infer_shape: bool = True,
        element_shape: Any = None,
        colocate_with_first_write_call: bool = True,
        name: str | None = None,
    ) -> None:
        self._dtype = as_dtype(dtype)
        self._grows = bool(dynamic_size)
        self._infers = bool(infer_shape)
        self._shape = TensorShape(element_shape)
        self._count = None if size is None else constant_value(convert_to_tensor(size))
        self._flow: Tensor | None = None
        self._held: TensorList | None = None
        if flow is not None:
            self._flow = flow
            return
        if size is None:
            raise ValueError("Size must be declared for TensorArrays: wanted size=, or flow=")
        graph = context.current_graph() or (size.graph if isinstance(size, Tensor) else None)
        if graph is None:
            items: list[Array | None] = [None] * int(convert_to_tensor(size))  # type: ignore[arg-type]
            clears = clear_after_read is None or bool(clear_after_read)
            self._held = TensorList(self._dtype.core, self._shape.dims, items, clears=clears, grows=self._grows)
        else:
            count = _index(size)
            self._flow = self._add_op(
                "TensorListReserve", [self._dims_constant(graph), count], name or "TensorArrayV2", graph
            )

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self._dtype

    @property
    def flow(self) -> Any:
        """The list as a tensor of a graph; None eagerly."""
        return self._flow

    @property
    def handle(self) -> None:
        """None, as in TensorFlow 2."""
        return None

    @property
    def element_shape(self) -> TensorShape:
        """What is known of the shape of all elements."""
        return self._shape

    @property
    def dynamic_size(self) -> bool:
        """Whether writes beyond the end lengthen it."""
        return self._grows

    def parts(self) -> list[Any]:
        """Return the flow, in a list; an empty list eagerly."""
        return [] if self._flow is None else [self._flow]

    def with_parts(self, parts: Sequence[Any]) -> TensorArray:
        """Return the same array with another flow."""
        return self._with_flow(parts[0]) if parts else self

    def shaped(self, shape: TensorShape) -> TensorArray:
        """Return the array with this shape for its elements."""
        return self if self._flow is None else self._with_flow(self._flow, shape.merge_with(self._shape))

    def identity(self) -> TensorArray:
        """Return the array; in a graph through an identity op."""
        return self if self._flow is None else self._with_flow(call("identity", self._flow))

    def size(self, name: str | None = None) -> Any:
        """Return the number of elements, i32[]."""
        if self._held is not None:
            return convert_to_tensor(len(self._held.items))
        info = self._described(i32, TensorShape([]))
        return self._add_op("TensorListLength", [self._flow], name or "TensorArrayV2Size", info=info)

    def write(self, index: Any, value: Any, name: str | None = None) -> TensorArray:
        """Write `value` at `index`. Returns the array with it."""
        element = self._as_element(value)
        if self._held is not None:
            return self._change_eagerly(
                lambda held: held.set(self._checked_index(int(index), "write to"), _array(element))
            )
        shape = self._merged_shape(element.shape)
        how = {"resize_if_index_out_of_bounds": self._grows}
        flow = self._add_op(
            "TensorListSetItem", [self._flow, _index(index), element], name or "TensorArrayV2Write", attrs=how
        )
        return self._with_flow(flow, shape)

    def read(self, index: Any, name: str | None = None) -> Any:
        """Return the element at `index`."""
        if self._held is not None:
            return self._read_eagerly(lambda held: held.get(self._checked_index(int(index), "read from")))
        info = self._described(self._dtype.core, self._shape)
        reads = [self._flow, _index(index), self._dims_constant()]
        return self._add_op("TensorListGetItem", reads, name or "TensorArrayV2Read", info=info)

    def stack(self, name: str | None = None) -> Any:
        """Return all elements stacked along a new first axis."""
        if self._held is not None:
            if not self._held.items and not self._shape.is_fully_defined():
                return EagerTensor(frozen(np.zeros(0, self._dtype.core.numpy)))
            return self._read_eagerly(lambda held: held.stacked_items(range(len(held.items))))
        count = None if self._grows or self._count is None else int(self._count)
        shape = TensorShape(None if self._shape.dims is None else [count, *self._shape.dims])
        info = self._described(self._dtype.core, shape)
        attrs = {"num_elements": -1 if count is None else count}
        return self._add_op(
            "TensorListStack",
            [self._flow, self._dims_constant()],
            name or "TensorArrayV2Stack",
            info=info,
            attrs=attrs,
        )

    def gather(self, indices: Any, name: str | None = None) -> Any:
        """Return the elements at `indices`, stacked along a new first axis."""
        if self._held is not None:
            places = [
                self._checked_index(int(place), "read from")
                for place in np.asarray(convert_to_tensor(indices)).reshape(-1)
            ]
            return self._read_eagerly(lambda held: held.stacked_items(places))
        chosen = convert_to_tensor(indices)
        count = chosen.shape[0] if chosen.shape.rank == 1 else None
        shape = TensorShape(None if self._shape.dims is None else [count, *self._shape.dims])
        info = self._described(self._dtype.core, shape)
        reads = [self._flow, _index(chosen), self._dims_constant()]
        return self._add_op("TensorListGather", reads, name or "TensorArrayV2Gather", info=info)

    def concat(self, name: str | None = None) -> Any:
        """Return all elements concatenated along their first axis, in which they may differ."""
        if self._held is not None:
            return self._read_eagerly(lambda held: held.concatenated()[0])
        rest = TensorShape([None]).concatenate(self._shape[1:])
        graph = self._graph()
        reads = [self._flow, self._dims_constant(graph, rest), constant_in(graph, np.zeros(0, np.int64))]
        info = self._described(self._dtype.core, rest)
        return self._add_op("TensorListConcatV2", reads, name or "TensorArrayV2Concat", info=info, has_lengths=True)

    def unstack(self, value: Any, name: str | None = None) -> TensorArray:
        """Write the rows of `value`. Returns the array with them."""
        tensor = self._as_element(value)
        if self._held is not None:
            return self._change_eagerly(lambda held: self._refill(held, rows(_array(tensor))))
        shape = self._merged_shape(tensor.shape[1:])
        flow = self._add_op(
            "TensorListFromTensor", [tensor, self._dims_constant(None, shape)], name or "TensorArrayUnstack"
        )
        return self._with_flow(flow, shape)

    def scatter(self, indices: Any, value: Any, name: str | None = None) -> TensorArray:
        """Write the rows of `value` at `indices`. Returns the array with them."""
        tensor = self._as_element(value)
        if self._held is not None:
            return self._change_eagerly(
                lambda held: self._write_items(held, np.asarray(indices).reshape(-1), rows(_array(tensor)))
            )
        shape = self._merged_shape(tensor.shape[1:])
        reads = [self._flow, tensor, _index(indices)]
        return self._with_flow(
            self._add_op("TensorListScatterIntoExistingList", reads, name or "TensorArrayV2Scatter"), shape
        )

    def split(self, value: Any, lengths: Any, name: str | None = None) -> TensorArray:
        """Write the pieces of `value` of these `lengths`. Returns the array with them."""
        tensor, sizes = self._as_element(value), call("cast", lengths, "int64")
        if self._held is not None:
            return self._change_eagerly(lambda held: self._refill(held, [*parts(_array(tensor), _array(sizes))]))
        flow = self._add_op("TensorListSplit", [tensor, self._dims_constant(), sizes], name or "TensorArrayV2Split")
        return self._with_flow(flow)

    def close(self, name: str | None = None) -> Any:
        """Do nothing: memory is released with the last reference."""
        return control_flow.no_op(name)

    def grad(self, source: str, flow: Any = None, name: str | None = None) -> Any:
        """Raise NotImplementedError: there are no gradients."""
        raise NotImplementedError("TensorArray.grad: treadle runs graphs and computes no gradients")

    def _graph(self) -> Graph:
        assert self._flow is not None
        return context.current_graph() or self._flow.graph

    def _described(self, dtype: CoreDType, shape: TensorShape) -> Info:
        return self._graph().describer.described(dtype, shape.dims)

    def _dims_constant(self, graph: Graph | None = None, shape: TensorShape | None = None) -> Tensor:
        """Return the element shape as a constant of the graph, with -1 for unknown dimensions."""
        dims = (self._shape if shape is None else shape).dims
        numbers = -1 if dims is None else [-1 if dim is None else dim for dim in dims]
        return constant_in(graph or self._graph(), np.array(numbers, np.int32))

    def _add_op(
        self,
        kind: str,
        inputs: Sequence[Any],
        name: str,
        graph: Graph | None = None,
        *,
        info: Info = _LIST,
        attrs: dict[str, Any] | None = None,
        has_lengths: bool = False,
    ) -> Tensor:
        """Add an op on the list and return its first result.

        `has_lengths` says whether it has a second one, of lengths.
        """
        where = graph or self._graph()
        stated = {"element_dtype": self._dtype.core, **(attrs or {})}
        more = [self._described(i64, TensorShape([None]))] if has_lengths else []
        tensors = [item if isinstance(item, Tensor) else constant_in(where, np.asarray(item)) for item in inputs]
        op = where.create_op(
            kind,
            tensors,
            lambda e, values: e.lists.emit(e, Node(e.name, kind, [], [], stated), values, LISTS[kind]),
            name,
            outputs=[info, *more],
            attrs=stated,
        )
        return op.outputs[0]

    def _with_flow(self, flow: Tensor, shape: TensorShape | None = None) -> TensorArray:
        made = TensorArray(self._dtype, flow=flow, dynamic_size=self._grows, infer_shape=self._infers)
        made._shape = self._shape if shape is None or not self._infers else shape
        made._count = self._count
        return made

    def _as_element(self, value: Any) -> Any:
        """Convert `value` to a tensor. Raises InvalidArgumentError for another dtype."""
        tensor = convert_to_tensor(value, dtype_hint=self._dtype)
        if tensor.dtype != self._dtype:
            raise MisfitError(
                None,
                None,
                f"TensorArray dtype is {self._dtype.name} but Op is trying to write dtype {tensor.dtype.name}",
            )
        return tensor

    def _merged_shape(self, shape: TensorShape) -> TensorShape:
        """Merge the element shape with that of an element. Raises ValueError if they contradict each other."""
        if not self._shape.is_compatible_with(shape):
            raise ValueError(f"Inconsistent shapes: saw {shape} but expected {self._shape}")
        return self._shape.merge_with(shape) if self._infers else self._shape

    def _checked_index(self, index: int, doing: str) -> int:
        """Return `index`. Raises OutOfRangeError if the array neither has nor can get such an element."""
        assert self._held is not None
        count = len(self._held.items)
        if index < 0:
            raise OutOfRangeError(None, None, f"Tried to {doing} index {index}; indices begin at 0")
        if index >= count and (doing != "write to" or not self._grows):
            why = "array is not resizeable and size is" if doing == "write to" else "array size is"
            raise OutOfRangeError(None, None, f"Tried to {doing} index {index} but {why}: {count}")
        return index

    def _write_items(self, held: TensorList, places: Array, items: Sequence[Array | None]) -> None:
        for place, item in zip(places.tolist(), items, strict=True):
            assert item is not None
            held.set(self._checked_index(place, "write to"), item)

    def _refill(self, held: TensorList, items: Sequence[Array | None]) -> None:
        if len(items) > len(held.items) and not self._grows:
            raise ValueError(f"Cannot unstack {len(items)} tensors into a TensorArray of static size {len(held.items)}")
        held.items = ListStorage([])
        for item in items:
            assert item is not None
            held.push(item)

    def _change_eagerly(self, change: Callable[[TensorList], Any]) -> TensorArray:
        """Change the array in place and return it."""
        assert self._held is not None
        _call_list(change, self._held)
        if self._infers:
            written = next((item for item in self._held.items.to_list() if item is not None), None)
            self._shape = self._shape if written is None else self._shape.merge_with(written.shape)
            self._held.dims = self._shape.dims
        return self

    def _read_eagerly(self, read: Callable[[TensorList], Array]) -> EagerTensor:
        assert self._held is not None
        return EagerTensor(frozen(_call_list(read, self._held)))


def _call_list(function: Callable[[TensorList], Any], held: TensorList) -> Any:
    """Call `function` with the list.

    Raises InvalidArgumentError, which is also a ValueError, in place of KernelError.
    """
    try:
        return function(held)
    except KernelError as error:
        raise MisfitError(None, None, str(error)) from error


def _array(tensor: Any) -> Array:
    return np.asarray(tensor)


def _index(index: Any) -> Any:
    """Return one index, or several, as an int32 tensor."""
    tensor = convert_to_tensor(index)
    return tensor if tensor.dtype == "int32" else call("cast", tensor, "int32")
