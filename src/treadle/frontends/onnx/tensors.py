"""Tensors stored in a model as arrays. Nothing is allocated before declared and present sizes agree."""

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from treadle.frontends.faults import Fault
from treadle.frontends.onnx.reader import External
from treadle.frontends.onnx.types import DTYPES, element_type_name
from treadle.frontends.stored import declared_elements, from_bytes
from treadle.ops.op import Array

MAX_SPARSE_BYTES = 256 << 20
"""The largest dense tensor that a sparse one is expanded to."""

_BITS: dict[int, int] = {number: dtype.size * 8 for number, dtype in DTYPES.items()} | {
    TensorProto.COMPLEX64: 64, TensorProto.COMPLEX128: 128,
    TensorProto.FLOAT8E4M3FN: 8, TensorProto.FLOAT8E4M3FNUZ: 8, TensorProto.FLOAT8E5M2: 8,
    TensorProto.FLOAT8E5M2FNUZ: 8, TensorProto.FLOAT8E8M0: 8,
    TensorProto.INT4: 4, TensorProto.UINT4: 4, TensorProto.FLOAT4E2M1: 4,
    TensorProto.INT2: 2, TensorProto.UINT2: 2,
}  # fmt: skip

_FIELDS: dict[int, str] = {
    TensorProto.FLOAT: "float_data", TensorProto.COMPLEX64: "float_data",
    TensorProto.DOUBLE: "double_data", TensorProto.COMPLEX128: "double_data",
    TensorProto.INT64: "int64_data", TensorProto.UINT64: "uint64_data", TensorProto.UINT32: "uint64_data",
    TensorProto.STRING: "string_data",
}  # fmt: skip
"""Element type -> the field that holds it when it is not in raw_data; every other one is in int32_data."""


def tensor_elements(tensor: TensorProto) -> int:
    """How many elements `tensor` declares. Raises Fault for an unknown element type or an impossible shape."""
    if tensor.data_type not in _BITS:
        raise Fault(f"element type {element_type_name(tensor.data_type)} is unknown")
    return declared_elements(tensor.dims)


def is_external(tensor: TensorProto) -> bool:
    """Whether the data of `tensor` are in another file."""
    return bool(tensor.data_location == TensorProto.EXTERNAL or tensor.external_data)


def check_tensor(tensor: TensorProto, payload: memoryview | None = None) -> None:
    """Raise Fault unless the tensor's data in the model has exactly the size its shape and type declare.

    `payload` are its raw data if they were not parsed.
    """
    _check_data(tensor, _raw(tensor, payload))


def _raw(tensor: TensorProto, payload: memoryview | None) -> bytes | memoryview | None:
    if payload is not None:
        return payload
    return tensor.raw_data if tensor.HasField("raw_data") else None


def _check_data(tensor: TensorProto, raw: bytes | memoryview | None) -> None:
    """`check_tensor`, given the raw data: each access to the field copies it."""
    count = tensor_elements(tensor)
    if tensor.HasField("segment"):
        raise Fault("tensors in segments are not part of any ONNX file treadle knows")
    if is_external(tensor):
        return
    if raw is not None:
        wanted, came, unit = _bytes(tensor.data_type, count), len(raw), "bytes"
        if tensor.data_type == TensorProto.STRING:
            raise Fault("strings cannot be stored as raw data")
    else:
        wanted = _entries(tensor.data_type, count)
        came, unit = len(getattr(tensor, _FIELDS.get(tensor.data_type, "int32_data"))), "numbers"
    if came != wanted:
        kind = element_type_name(tensor.data_type)
        raise Fault(f"{kind}{list(tensor.dims)} needs {wanted} {unit} of data, but the model holds {came}")


def _bytes(data_type: int, count: int) -> int:
    return -(-count * _BITS[data_type] // 8)


def _entries(data_type: int, count: int) -> int:
    if data_type in (TensorProto.COMPLEX64, TensorProto.COMPLEX128):
        return 2 * count
    return -(-count * _BITS[data_type] // 8) if _BITS[data_type] < 8 else count


def to_array(tensor: TensorProto, external: External, payload: memoryview | None = None) -> Array:
    """`tensor` as an array (read-only if it shares the model's bytes). Strings become objects of type str.

    `payload` are its raw data if they were not parsed.
    Raises Fault if its size is not what it declares, or its external data cannot be used.
    """
    raw = _raw(tensor, payload)
    _check_data(tensor, raw)
    shape = tuple(tensor.dims)
    if tensor.data_type == TensorProto.STRING:
        if is_external(tensor):
            raise Fault("strings cannot be stored as external data")
        texts = [item.decode("utf-8", "replace") for item in tensor.string_data]
        return np.array(texts, dtype=object).reshape(shape)
    dtype = DTYPES.get(tensor.data_type)
    if is_external(tensor):
        content: bytes | memoryview = read_external(tensor, external)
    elif raw is not None:
        content = raw
    else:
        return np.asarray(numpy_helper.to_array(tensor))
    if dtype is None:
        loose = TensorProto(data_type=tensor.data_type, dims=tensor.dims, raw_data=bytes(content))
        return np.asarray(numpy_helper.to_array(loose))
    return from_bytes(content, dtype, shape)


def read_external(tensor: TensorProto, external: External) -> bytes | memoryview:
    """The bytes of a tensor stored outside the model. Raises Fault if they cannot be used."""
    entries: Mapping[str, str] = {entry.key: entry.value for entry in tensor.external_data}
    if "location" not in entries:
        raise Fault("its data is external, but `location` is missing")
    if tensor.data_type == TensorProto.STRING:
        raise Fault("strings cannot be stored as external data")
    size = _bytes(tensor.data_type, tensor_elements(tensor))
    return external.read(entries["location"], _natural(entries, "offset") or 0, _natural(entries, "length"), size)


def _natural(entries: Mapping[str, str], key: str) -> int | None:
    text = entries.get(key)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise Fault(f"its external data has {key} {text!r}; wanted a number, 0 or more")
    return int(text)


def sparse_to_array(sparse: onnx.SparseTensorProto, external: External) -> Array:
    """A sparse tensor as a dense array. Raises Fault if it is malformed or too large to expand."""
    values, indices = to_array(sparse.values, external), to_array(sparse.indices, external)
    shape = tuple(sparse.dims)
    count = declared_elements(shape)
    if count * values.dtype.itemsize > MAX_SPARSE_BYTES:
        raise Fault(f"expanding the sparse tensor {list(shape)} would take more than {MAX_SPARSE_BYTES >> 20} MiB")
    if values.ndim != 1 or indices.dtype != np.int64 or indices.shape not in (values.shape, (values.size, len(shape))):
        raise Fault(
            f"a sparse tensor needs values [n] and INT64 indices [n] or [n, {len(shape)}], "
            f"got values {list(values.shape)} and indices {list(indices.shape)}"
        )
    limits = np.array([count] if indices.ndim == 1 else shape)
    columns = indices.reshape(values.size, -1)
    if ((columns < 0) | (columns >= limits)).any():
        raise Fault(f"an index of the sparse tensor lies outside its shape {list(shape)}")
    dense = np.zeros(count, values.dtype)
    dense[indices if indices.ndim == 1 else np.ravel_multi_index(tuple(columns.T), shape)] = values
    return dense.reshape(shape)
