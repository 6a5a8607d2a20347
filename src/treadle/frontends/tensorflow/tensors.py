"""Conversion of TensorFlow's element types, shapes and stored tensors. Sizes are checked before any allocation."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle import dtypes
from treadle.dtypes import DType
from treadle.frontends.faults import Fault, Unsupported
from treadle.frontends.stored import declared_elements, from_bytes
from treadle.frontends.tensorflow.messages import ENUMS, TensorProto, TensorShapeProto
from treadle.ops.op import Array

MAX_RANK = 32
MAX_REPEATED_BYTES = 16 << 20
"""The largest tensor that is filled by repeating several stored elements; a single one is not copied."""

_DTYPES: dict[str, DType] = {
    "DT_FLOAT": dtypes.f32, "DT_DOUBLE": dtypes.f64, "DT_HALF": dtypes.f16, "DT_BFLOAT16": dtypes.bf16,
    "DT_INT8": dtypes.i8, "DT_INT16": dtypes.i16, "DT_INT32": dtypes.i32, "DT_INT64": dtypes.i64,
    "DT_UINT8": dtypes.u8, "DT_UINT16": dtypes.u16, "DT_UINT32": dtypes.u32, "DT_UINT64": dtypes.u64,
    "DT_BOOL": dtypes.boolean, "DT_STRING": dtypes.string,
}  # fmt: skip
NUMBERS: dict[DType, int] = {dtype: ENUMS["DataType"][name] for name, dtype in _DTYPES.items()}
"""TensorFlow's number of each element type."""
_OBJECTS = ("DT_VARIANT", "DT_RESOURCE")
"""The element types of lists of tensors, which are Python objects as text is."""
DTYPES: dict[int, DType] = {
    **{number: dtype for dtype, number in NUMBERS.items()},
    **{ENUMS["DataType"][name]: dtypes.string for name in _OBJECTS},
}
"""The DType for TensorFlow's number of an element type, for those that treadle has."""

_NAMES = {number: name for name, number in ENUMS["DataType"].items()}
_REFERENCE = 100
"""What is added to the number of an element type for a reference to a variable."""

_FIELDS: dict[DType, str] = {
    dtypes.f32: "float_val", dtypes.f64: "double_val", dtypes.f16: "half_val", dtypes.bf16: "half_val",
    dtypes.i64: "int64_val", dtypes.boolean: "bool_val", dtypes.string: "string_val", dtypes.u32: "uint32_val",
    dtypes.u64: "uint64_val",
}  # fmt: skip
"""The field that holds the elements of tensors without tensor_content; int_val for every other type."""


def dtype_of(number: int) -> DType:
    """Return the DType for the number of an element type. Raises Unsupported if treadle has none."""
    found = DTYPES.get(number - _REFERENCE if number > _REFERENCE else number)
    if found is None:
        known = ", ".join(name for name in _DTYPES)
        raise Unsupported(f"its element type is {_NAMES.get(number, number)}; wanted one of {known}")
    return found


def dims_of(shape: Any) -> tuple[int | None, ...] | None:
    """Return the dimensions of a TensorShapeProto, with None for unknown ones; None if the rank is unknown.

    Raises Fault for an impossible shape.
    """
    if shape.unknown_rank:
        return None
    sizes = [dim.size for dim in shape.dim]
    if len(sizes) > MAX_RANK:
        raise Fault(f"its shape has {len(sizes)} dimensions; at most {MAX_RANK} are allowed")
    if any(size < -1 for size in sizes):
        raise Fault(f"its shape {sizes} has an impossible dimension")
    return tuple(None if size < 0 else int(size) for size in sizes)


def shape_message(dims: tuple[int | None, ...] | None) -> Any:
    """Return the TensorShapeProto of `dims`."""
    message = TensorShapeProto(unknown_rank=dims is None)
    for size in dims or ():
        message.dim.add(size=-1 if size is None else size)
    return message


def to_array(tensor: Any) -> Array:
    """Return a TensorProto as a read-only array. If it has fewer elements than its shape, the last one is repeated.

    Strings become objects of type str. Raises Fault if its size does not match its shape.
    """
    dtype = dtype_of(tensor.dtype)
    dims = dims_of(tensor.tensor_shape)
    if dims is None or None in dims:
        raise Fault("the shape of its tensor is not fully known")
    shape = tuple(dim for dim in dims if dim is not None)
    count = declared_elements(shape)
    content = tensor.tensor_content
    if content:
        if dtype is dtypes.string:
            raise Unsupported("its strings are stored as tensor_content, which is no public format")
        if len(content) != count * dtype.size:
            raise Fault(
                f"{dtype}{list(shape)} needs {count * dtype.size} bytes of tensor_content, but it has {len(content)}"
            )
        return from_bytes(content, dtype, shape)
    return _frozen(_filled(_listed(tensor, dtype), shape, count))


def _listed(tensor: Any, dtype: DType) -> Array:
    """Return the elements of the field for `dtype`, flat."""
    field = getattr(tensor, _FIELDS.get(dtype, "int_val"))
    if dtype is dtypes.string:
        texts = [item.decode("utf-8", "replace") for item in field]
        flat = np.empty(len(texts), dtype=object)
        flat[:] = texts
        return flat
    if dtype in (dtypes.f16, dtypes.bf16):
        return np.fromiter((bits & 0xFFFF for bits in field), np.uint16, len(field)).view(dtype.numpy)
    wide: Any = np.int64 if dtype.is_integer and dtype.size < 8 else dtype.numpy
    return np.fromiter(field, wide, len(field)).astype(dtype.numpy, copy=False)


def _filled(flat: Array, shape: tuple[int, ...], count: int) -> Array:
    if flat.size == count:
        return flat.reshape(shape)
    if flat.size > count:
        raise Fault(f"its shape {list(shape)} wants {count} elements, but it has {flat.size}")
    last = flat[-1:] if flat.size else np.array([""], object) if flat.dtype == object else np.zeros(1, flat.dtype)
    if flat.size <= 1:
        return np.broadcast_to(last.reshape(()), shape)
    if count * flat.itemsize > MAX_REPEATED_BYTES:
        raise Fault(
            f"its shape {list(shape)} wants {count} elements, but it has {flat.size}; "
            f"several elements are repeated to fill {MAX_REPEATED_BYTES >> 20} MiB at most"
        )
    return np.concatenate([flat, np.repeat(last, count - flat.size)]).reshape(shape)


def _frozen(array: Array) -> Array:
    if array.flags.writeable:
        array.flags.writeable = False
    return array


def tensor_message(array: Array) -> Any:
    """Return the TensorProto of an array. Raises TypeError for an element type that treadle does not have."""
    dtype = dtypes.from_numpy(array.dtype)
    message = TensorProto(dtype=NUMBERS[dtype], tensor_shape=shape_message(array.shape))
    if dtype is dtypes.string:
        message.string_val.extend(item if isinstance(item, bytes) else str(item).encode() for item in array.flat)
    else:
        stored = array.dtype if array.dtype.kind == "V" else array.dtype.newbyteorder("<")
        message.tensor_content = np.ascontiguousarray(array, stored).tobytes()
    return message
