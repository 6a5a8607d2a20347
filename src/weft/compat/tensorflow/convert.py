"""What users pass, as tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.compat.tensorflow import context
from weft.compat.tensorflow.dtypes import DType, as_dtype
from weft.compat.tensorflow.graph import Graph
from weft.compat.tensorflow.shape import TensorShape
from weft.compat.tensorflow.tensor import EagerTensor, Tensor, TensorLike, call
from weft.ops.op import Array, Info


def array_of(value: Any, dtype: DType | None = None) -> Array:
    """`value` as an array: Python floats are float32, ints int32. Raises TypeError if it cannot be `dtype`."""
    if isinstance(value, EagerTensor):
        array = np.asarray(value)
    elif isinstance(value, TensorShape):
        array = np.asarray(value.as_list(), np.int32)
    elif isinstance(value, (list, tuple)) and any(isinstance(item, EagerTensor) for item in value):
        array = np.stack([array_of(item) for item in value])
    else:
        array = np.asarray(value)
        if not isinstance(value, (np.ndarray, np.generic)):
            array = _natural(value, array)
            if dtype is not None and _loses(array, dtype):
                raise TypeError(f"Cannot convert {value!r} to a tensor of dtype {dtype.name}")
            return array if dtype is None else array.astype(dtype.core.numpy)
    if dtype is not None and as_dtype(array.dtype) != dtype:
        raise TypeError(f"Tensor conversion requested dtype {dtype.name} for a tensor with dtype {array.dtype}")
    return array.astype(object) if array.dtype.kind in "US" else array


def _natural(value: Any, array: Array) -> Array:
    """Lists of Python numbers, which NumPy makes 64 bits wide; arrays among them keep their dtype."""
    leaf = value
    while isinstance(leaf, (list, tuple)) and leaf:
        leaf = leaf[0]
    if isinstance(leaf, (np.ndarray, np.generic)):
        return array
    if array.dtype == np.float64:
        return array.astype(np.float32)
    if array.dtype == np.int64 and (not array.size or abs(array).max() < 1 << 31):
        return array.astype(np.int32)
    if array.dtype.kind in "US":
        return array.astype(object)
    if array.dtype == object and not all(isinstance(item, (str, bytes)) for item in array.flat):
        raise TypeError(f"Cannot convert {value!r} to a tensor")
    return array


def _loses(array: Array, dtype: DType) -> bool:
    kind = array.dtype.kind
    return bool(array.size) and ((kind == "f" and not dtype.is_floating) or (kind == "b") != dtype.is_bool)


def constant_in(graph: Graph, array: Array, name: str | None = None) -> Tensor:
    """A constant of `graph`."""
    info = Info(as_dtype(array.dtype).core, array.shape, array)
    return graph.create_op(
        "Const", (), lambda e, _: e.constant(array), name, outputs=[(info, info)], attrs={"value": array}
    ).outputs[0]


def convert_to_tensor(
    value: Any, dtype: Any = None, dtype_hint: Any = None, name: str | None = None
) -> Tensor | EagerTensor:
    """`value` as a tensor: of the current graph, or eager. Raises TypeError if it cannot be one of `dtype`."""
    wanted = None if dtype is None else as_dtype(dtype)
    if hasattr(value, "read_value"):
        value = value.read_value()
    if isinstance(value, Tensor):
        if wanted is not None and value.dtype != wanted:
            raise TypeError(f"Tensor conversion requested dtype {wanted.name} for {value!r}")
        return value
    graph = context.current_graph()
    first = _first_tensor(value)
    if first is not None:
        hint = first.dtype if wanted is None else wanted
        rows = [convert_to_tensor(item, dtype_hint=hint) for item in value]
        return convert_to_tensor(call("stack", rows), wanted)
    if wanted is None and dtype_hint is not None and not hasattr(value, "dtype"):
        try:
            array = array_of(value, as_dtype(dtype_hint))
        except TypeError:
            array = array_of(value)
    else:
        array = array_of(value, wanted)
    if graph is None:
        return value if isinstance(value, EagerTensor) else EagerTensor(frozen(array))
    return constant_in(graph, frozen(array), name)


def _first_tensor(value: Any) -> Any:
    """The first tensor in nested lists, if `value` is such."""
    if not isinstance(value, (list, tuple)):
        return None
    found = (item if isinstance(item, TensorLike) else _first_tensor(item) for item in value)
    return next((item for item in found if item is not None), None)


def frozen(array: Array) -> Array:
    """A contiguous copy that nobody else can change."""
    copy = np.array(array, order="C")
    copy.flags.writeable = False
    return copy


def constant(value: Any, dtype: Any = None, shape: Any = None, name: str = "Const") -> Tensor | EagerTensor:
    """A constant; one number fills `shape`. NumPy values of another dtype are converted."""
    if isinstance(value, (np.ndarray, np.generic)) and dtype is not None:
        value = np.asarray(value).astype(as_dtype(dtype).core.numpy)
    array = array_of(value, None if dtype is None else as_dtype(dtype))
    if shape is not None:
        dims = TensorShape(shape).static()
        array = np.full(dims, array) if array.size == 1 else array.reshape(dims)
    return convert_to_tensor(array, name=name)


def constant_value(tensor: Any) -> Array | None:
    """The value of a tensor that is known while the graph is built, else None."""
    if isinstance(tensor, EagerTensor):
        return np.asarray(tensor)
    if isinstance(tensor, Tensor):
        a, b = (form.value for form in tensor.forms)
        return a if a is not None and b is not None and np.array_equal(a, b) else None
    return None


def is_tensor(value: Any) -> bool:
    """Whether `value` is a tensor or a variable."""
    return isinstance(value, TensorLike)
