"""NodeArg and ModelMetadata: what a session says of its model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from treadle import dtypes
from treadle.dtypes import DType
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
        return None


def element_number(dtype: np.dtype[Any]) -> int:
    """Return ONNX's number of an element type. Raises TypeError if there is no such tensor."""
    return _NUMBERS[dtypes.from_numpy(dtype) if dtype.kind != "O" else dtypes.string]


def element_dtype(element_type: Any) -> np.dtype[Any]:
    """Return the NumPy dtype of an element type: a NumPy type, or the number that ONNX has for it.

    Raises RuntimeError if there is no such tensor.
    """
    if isinstance(element_type, int) and not isinstance(element_type, bool):
        if element_type not in _BY_NUMBER:
            raise RuntimeError(f"there are no tensors of the ONNX element type {element_type}")
        return _BY_NUMBER[element_type].numpy
    dtype: np.dtype[Any] = np.dtype(element_type)
    return dtype


def dtype_of(name: str) -> np.dtype[Any] | None:
    """Return the NumPy dtype of a type such as "tensor(float)"; None if it is no tensor."""
    found = _DTYPES.get(name)
    return None if found is None else found.numpy


@dataclass(frozen=True, slots=True, repr=False)
class NodeArg:
    """An input or output.

    Attributes:
        name: Its name.
        type: Its type, such as "tensor(float)".
        shape: A size, a name, or None for each axis; empty if the rank is unknown, too.
        ranked: Whether the rank is known.
    """

    name: str
    type: str
    shape: list[int | str | None]
    ranked: bool = True

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


@dataclass(frozen=True, slots=True)
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
        version=model.version,
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
        found.append(NodeArg(one.name, one.type, fixed, shape is not None))
    return found


def _inferred(tensor: Tensor | None) -> tuple[int | str | None, ...] | None:
    if tensor is None or tensor.shape is None:
        return None
    return tuple(size if isinstance(size, int) else None for size in tensor.shape)
