"""NodeArg and ModelMetadata: what a session says of its model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from treadle import dtypes
from treadle.dtypes import DType
from treadle.immutable import immutable
from treadle.runtime.signature import Tensor

if TYPE_CHECKING:
    from treadle.frontends.onnx.description import Declared, Description

_TYPES: tuple[tuple[DType, int, str], ...] = (
    (dtypes.f32, 1, "tensor(float)"),
    (dtypes.u8, 2, "tensor(uint8)"),
    (dtypes.i8, 3, "tensor(int8)"),
    (dtypes.u16, 4, "tensor(uint16)"),
    (dtypes.i16, 5, "tensor(int16)"),
    (dtypes.i32, 6, "tensor(int32)"),
    (dtypes.i64, 7, "tensor(int64)"),
    (dtypes.string, 8, "tensor(string)"),
    (dtypes.boolean, 9, "tensor(bool)"),
    (dtypes.f16, 10, "tensor(float16)"),
    (dtypes.f64, 11, "tensor(double)"),
    (dtypes.u32, 12, "tensor(uint32)"),
    (dtypes.u64, 13, "tensor(uint64)"),
    (dtypes.bf16, 16, "tensor(bfloat16)"),
)
"""Each element type with ONNX's number for it and the name of its tensors (onnx.proto, TensorProto.DataType)."""

_SMALL: tuple[tuple[str, int, str], ...] = (
    ("float8_e4m3fn", 17, "tensor(float8e4m3fn)"),
    ("float8_e4m3fnuz", 18, "tensor(float8e4m3fnuz)"),
    ("float8_e5m2", 19, "tensor(float8e5m2)"),
    ("float8_e5m2fnuz", 20, "tensor(float8e5m2fnuz)"),
    ("uint4", 21, "tensor(uint4)"),
    ("int4", 22, "tensor(int4)"),
    ("float4_e2m1fn", 23, "tensor(float4e2m1)"),
    ("float8_e8m0fnu", 24, "tensor(float8e8m0)"),
    ("uint2", 25, "tensor(uint2)"),
    ("int2", 26, "tensor(int2)"),
)
"""The element types of ml_dtypes that sessions take and return, by their names there, likewise."""

_NAMES = {dtype: name for dtype, _, name in _TYPES}
_NUMBERS = {dtype: number for dtype, number, _ in _TYPES}
_DTYPES = {name: dtype for dtype, _, name in _TYPES}
_BY_NUMBER = {number: dtype for dtype, number, _ in _TYPES}


def type_name(dtype: np.dtype[Any]) -> str | None:
    """Return the name of the type of a tensor with these elements; None if there is no such tensor."""
    if dtype.kind == "O":
        return "tensor(string)"
    try:
        return _NAMES[dtypes.from_numpy(dtype)]
    except TypeError:
        return next((name for small, _, name in _SMALL if small == dtype.name), None)


def element_number(dtype: np.dtype[Any]) -> int:
    """Return ONNX's number of an element type. Raises TypeError if there is no such tensor."""
    for small, number, _ in _SMALL:
        if small == dtype.name:
            return number
    return _NUMBERS[dtypes.from_numpy(dtype) if dtype.kind != "O" else dtypes.string]


def element_dtype(element_type: Any) -> np.dtype[Any]:
    """Return the NumPy dtype of an element type: a NumPy type, or the number that ONNX has for it.

    Raises RuntimeError if there is no such tensor.
    """
    if isinstance(element_type, int) and not isinstance(element_type, bool):
        if element_type in _BY_NUMBER:
            return _BY_NUMBER[element_type].numpy
        import ml_dtypes

        for small, number, _ in _SMALL:
            if number == element_type and hasattr(ml_dtypes, small):  # integers of 2 bits came with its version 0.5
                found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, small))
                return found
        raise RuntimeError(f"tensor type {element_type} is not supported")
    try:
        dtype: np.dtype[Any] = np.dtype(element_type)
    except TypeError:
        raise RuntimeError(f"Not a valid numpy type: {element_type!r}") from None
    return dtype


def dtype_of(name: str) -> np.dtype[Any] | None:
    """Return the NumPy dtype of a type such as "tensor(float)"; None if it is no tensor."""
    found = _DTYPES.get(name)
    return None if found is None else found.numpy


@immutable
class NodeArg:
    """An input or output.

    Attributes:
        name: Its name.
        type: Its type, such as "tensor(float)".
        shape: A size, a name, or None for each axis; empty if the rank is unknown, too.
    """

    name: str
    type: str
    shape: list[int | str | None]

    @property
    def optional(self) -> bool:
        """Whether it may be absent."""
        return self.type.startswith("optional(")

    @property
    def content(self) -> str:
        """The type of the content of an optional; the type itself for other inputs."""
        return self.type.removeprefix("optional(").removesuffix(")") if self.optional else self.type

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """The NumPy dtype of its elements; None if it is no tensor."""
        return dtype_of(self.type)

    def __repr__(self) -> str:
        return f"NodeArg(name={self.name!r}, type={self.type!r}, shape={self.shape!r})"


_NO_VERSION = 2**63 - 1
"""What onnxruntime gives for a model without a version."""


@immutable
class ModelMetadata:
    """What a model says of itself."""

    custom_metadata_map: dict[str, str]
    description: str
    domain: str
    graph_description: str
    graph_name: str
    producer_name: str
    version: int


def metadata_of(model: Description) -> ModelMetadata:
    """Return the metadata of a model."""
    return ModelMetadata(
        custom_metadata_map=dict(model.metadata),
        description=model.text,
        domain=model.domain,
        graph_description=model.graph_text,
        graph_name=model.graph_name,
        producer_name=model.producer,
        version=_NO_VERSION if model.version is None else model.version,
    )


def node_args(
    declared: Iterable[Declared], inferred: Iterable[Tensor], sizes: Mapping[str, int], denoted: Mapping[str, int]
) -> list[NodeArg]:
    """Return what is declared, with what was inferred of results whose shape is not.

    `sizes` and `denoted` are fixed sizes of open dimensions, by name and by denotation.
    """
    known = {tensor.name: tensor for tensor in inferred}
    found = []
    for one in declared:
        shape = _inferred(known.get(one.name)) if one.shape is None else one.shape
        marks = one.denotations or ("",) * len(shape or ())
        fixed = [
            size if isinstance(size, int) else denoted.get(mark, size if size is None else sizes.get(size, size))
            for size, mark in zip(shape or (), marks, strict=True)
        ]
        found.append(NodeArg(one.name, one.type, fixed))
    return found


def _inferred(tensor: Tensor | None) -> tuple[int | str | None, ...] | None:
    if tensor is None or tensor.shape is None:
        return None
    return tuple(size if isinstance(size, int) else None for size in tensor.shape)
