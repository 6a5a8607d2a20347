"""Conversion of arguments to tensors."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from treadle import dtypes as core
from treadle.compat.tensorflow import context
from treadle.compat.tensorflow.dispatch import call
from treadle.compat.tensorflow.dtypes import DType, as_dtype
from treadle.compat.tensorflow.graph import Graph
from treadle.compat.tensorflow.shape import TensorShape
from treadle.compat.tensorflow.tensor import EagerTensor, Tensor
from treadle.compat.tensorflow.tensor_like import TensorLike
from treadle.ops.op import Array, Info


def array_of(value: Any, dtype: DType | None = None) -> Array:
    """Return `value` as an array. Python floats become float32 and ints int32; NumPy values are converted to `dtype`.

    Raises TypeError for a Python value that `dtype` cannot hold, ValueError for a tensor of another dtype and for
    values that cannot be tensors.
    """
    if isinstance(value, EagerTensor):
        array = np.asarray(value)
        if dtype is not None and value.dtype != dtype:
            raise ValueError(
                f"Tensor conversion requested dtype {dtype.name} for Tensor with dtype {value.dtype.name}: {value!r}"
            )
        return array
    if isinstance(value, TensorShape):
        array = np.asarray(value.as_list(), np.int32)
    elif isinstance(value, (list, tuple)) and any(isinstance(item, EagerTensor) for item in value):
        array = np.stack([array_of(item) for item in value])
    elif isinstance(value, (np.ndarray, np.generic)):
        array = _encode_text(np.asarray(value))
    else:
        array = _from_python(value, wide=dtype is not None and dtype.core is core.f64)
        if dtype is not None and _loses_value(array, dtype):
            raise TypeError(f"Cannot convert {value!r} to a tensor of dtype {dtype.name}")
    if dtype is None or as_dtype(array.dtype) == dtype:
        return array
    if array.dtype == object or dtype.core is core.string:
        raise TypeError(f"Cannot convert {value!r} to a tensor of dtype {dtype.name}")
    return array.astype(dtype.core.numpy)


def _from_python(value: Any, *, wide: bool) -> Array:
    """Return Python numbers and text as an array, of 32 bits where they fit, or floats of 64 bits if `wide`.

    Arrays in lists keep their dtype. Raises ValueError for other values.
    """
    if value is None:
        raise ValueError("Attempt to convert a value (None) with an unsupported type (<class 'NoneType'>) to a Tensor.")
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ValueError("Can't convert non-rectangular Python sequence to Tensor.") from error
    if type(value) is float:
        return array if wide else array.astype(np.float32)
    if array.dtype.kind in "SU":
        array = np.asarray(value, object)  # NumPy's own dtypes of text drop NULs at the end
    leaves = list(_leaves(value))
    if len({isinstance(leaf, (bool, np.bool_)) for leaf in leaves}) > 1:
        raise ValueError(f"Cannot convert {value!r}, of mixed types, to a tensor")
    if any(isinstance(leaf, np.ndarray) for leaf in leaves):
        return _encode_text(array)
    if array.dtype == np.float64 and not (wide or (leaves and all(isinstance(leaf, np.float64) for leaf in leaves))):
        return array.astype(np.float32)
    if array.dtype == np.int64 and (not array.size or (array.min() >= -(1 << 31) and array.max() < 1 << 31)):
        return array.astype(np.int32)
    if array.dtype == object and not all(isinstance(item, str | bytes) for item in array.flat):
        raise ValueError(
            f"Attempt to convert a value ({value!r}) with an unsupported type ({type(value)}) to a Tensor."
        )
    return _encode_text(array)


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _leaves(item)
    else:
        yield value


def _encode_text(array: Array) -> Array:
    """Return text as bytes, the elements of string tensors. Raises ValueError for other objects."""
    if array.dtype.kind not in "USO":
        return array
    texts = [item.encode() if isinstance(item, str) else item for item in array.reshape(-1).tolist()]
    odd = next((type(item).__name__ for item in texts if not isinstance(item, bytes)), None)
    if odd is not None:
        raise ValueError(f"Failed to convert a NumPy array to a Tensor (Unsupported object type {odd}).")
    found = np.empty(len(texts), object)
    found[:] = texts
    return found.reshape(array.shape)


def _loses_value(array: Array, dtype: DType) -> bool:
    kind = array.dtype.kind
    if not array.size:
        return False
    if kind in "iu" and dtype.is_integer:
        limits = np.iinfo(dtype.core.numpy)
        return bool(array.min() < limits.min or array.max() > limits.max)
    return (kind == "f" and not dtype.is_floating) or (kind == "b") != dtype.is_bool


def constant_in(graph: Graph, array: Array, name: str | None = None) -> Tensor:
    """Add a constant to `graph`."""
    info = Info(as_dtype(array.dtype).core, array.shape, array)
    return graph.create_op(
        "Const", (), lambda e, _: e.constant(array), name, outputs=[info], attrs={"value": array}
    ).outputs[0]


def convert_to_tensor(
    value: Any, dtype: Any = None, dtype_hint: Any = None, name: str | None = None
) -> Tensor | EagerTensor:
    """Convert a value to a tensor of the current graph, or to an eager tensor.

    See tf.convert_to_tensor in TensorFlow's documentation.

    Args:
        value: a tensor, variable, array, number, text, or nested lists of these.
        dtype: the element type. None: that of the value; Python floats become float32, ints int32.
        dtype_hint: the element type for Python values, where `dtype` is None.
        name: the name of the constant in a graph.

    Returns:
        A Tensor while a graph is current, else an EagerTensor. A Tensor is returned as it is.

    Raises:
        TypeError: a Python value that `dtype` cannot hold.
        ValueError: a tensor of another dtype, or a value that cannot be a tensor.
    """
    wanted = None if dtype is None else as_dtype(dtype)
    if hasattr(value, "read_value"):
        value = value.read_value()
    if isinstance(value, Tensor):
        if wanted is not None and value.dtype != wanted:
            raise ValueError(
                f"Tensor conversion requested dtype {wanted.name} for Tensor with dtype {value.dtype.name}: {value!r}"
            )
        return value
    graph = context.current_graph()
    first = _first_tensor(value)
    if first is not None:
        hint = first.dtype if wanted is None else wanted
        rows = [convert_to_tensor(item, dtype_hint=hint) for item in value]
        return convert_to_tensor(call("stack", rows), wanted)
    if wanted is None and dtype_hint is not None and not isinstance(value, EagerTensor):
        array = array_of(value, as_dtype(dtype_hint))
    else:
        array = array_of(value, wanted)
    if graph is None:
        return value if isinstance(value, EagerTensor) else EagerTensor(frozen(array))
    return constant_in(graph, frozen(array), name)


def _first_tensor(value: Any) -> Any:
    """Return the first tensor in nested lists, else None."""
    if not isinstance(value, (list, tuple)):
        return None
    found = (item if isinstance(item, TensorLike) else _first_tensor(item) for item in value)
    return next((item for item in found if item is not None), None)


def frozen(array: Array) -> Array:
    """Return a contiguous read-only copy."""
    copy = np.array(array, order="C")
    copy.flags.writeable = False
    return copy


def constant(value: Any, dtype: Any = None, shape: Any = None, name: str = "Const") -> Tensor | EagerTensor:
    """Create a constant tensor.

    See tf.constant in TensorFlow's documentation.

    Args:
        value: a number, text, array, or nested lists of these.
        dtype: the element type; NumPy values of another one are converted.
        shape: the shape; one number fills it.
        name: the name of the operation in a graph.

    Returns:
        A Tensor while a graph is current, else an EagerTensor.

    Raises:
        TypeError: a value that `dtype` cannot hold, or whose elements do not fill `shape`.
    """
    array = array_of(value, None if dtype is None else as_dtype(dtype))
    if shape is not None:
        dims = TensorShape(shape).static()
        if array.size not in (1, math.prod(dims)):
            raise TypeError(f"Expected Tensor's shape: {dims}, but got {array.shape}.")
        array = np.full(dims, array) if array.size == 1 else array.reshape(dims)
    graph = context.current_graph()
    return EagerTensor(frozen(array)) if graph is None else constant_in(graph, frozen(array), name)


def is_tensor(value: Any) -> bool:
    """Return whether `value` is a tensor or a variable. See tf.is_tensor in TensorFlow's documentation."""
    return isinstance(value, TensorLike)
