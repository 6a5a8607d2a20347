"""Maps ONNX types and shapes to DTypes and Shapes."""

import re
from collections.abc import Iterator
from itertools import count

import onnx
from onnx import TensorProto

from treadle import dtypes
from treadle.dtypes import DType
from treadle.frontends.faults import Fault, Unsupported
from treadle.graph.shape import Dim, Shape

DTYPES: dict[int, DType] = {
    TensorProto.DOUBLE: dtypes.f64,
    TensorProto.FLOAT: dtypes.f32,
    TensorProto.FLOAT16: dtypes.f16,
    TensorProto.BFLOAT16: dtypes.bf16,
    TensorProto.INT64: dtypes.i64,
    TensorProto.INT32: dtypes.i32,
    TensorProto.INT16: dtypes.i16,
    TensorProto.INT8: dtypes.i8,
    TensorProto.UINT64: dtypes.u64,
    TensorProto.UINT32: dtypes.u32,
    TensorProto.UINT16: dtypes.u16,
    TensorProto.UINT8: dtypes.u8,
    TensorProto.BOOL: dtypes.boolean,
    TensorProto.STRING: dtypes.string,
}
"""ONNX element type -> DType, for the element types that a treadle tensor can have."""

FEW_BITS: dict[int, tuple[int, DType]] = {
    TensorProto.INT4: (4, dtypes.i8),
    TensorProto.UINT4: (4, dtypes.u8),
    TensorProto.INT2: (2, dtypes.i8),
    TensorProto.UINT2: (2, dtypes.u8),
}
"""ONNX integer types of less than a byte -> number of bits, and the DType of bytes that holds their numbers."""

NARROW: dict[int, DType] = {number: dtype for number, (_, dtype) in FEW_BITS.items()} | dict.fromkeys(
    (
        TensorProto.FLOAT8E4M3FN,
        TensorProto.FLOAT8E4M3FNUZ,
        TensorProto.FLOAT8E5M2,
        TensorProto.FLOAT8E5M2FNUZ,
        TensorProto.FLOAT8E8M0,
        TensorProto.FLOAT4E2M1,
    ),
    dtypes.u8,
)
"""ONNX element types that fit in a byte and that no core value has -> the DType of the bytes that stand for them.

A byte holds the number of an integer (FEW_BITS), or the bits of a float.
"""

NUMBERS: dict[DType, int] = {dtype: number for number, dtype in DTYPES.items()}

SCHEMA_NAMES: dict[DType, str] = {
    dtype: f"tensor({TensorProto.DataType.Name(number).lower()})" for number, dtype in DTYPES.items()
}
"""DType -> how ONNX's operator schemas write it: `tensor(float)`."""


def element_type_name(number: int) -> str:
    """FLOAT for 1, and so on; the number itself if ONNX knows no such element type."""
    return TensorProto.DataType.Name(number) if number in TensorProto.DataType.values() else str(number)


def tensor_type(kind: onnx.TypeProto) -> DType | None:
    """The dtype of a tensor type, or None for what no treadle tensor can hold (sequences, maps, float8, ...)."""
    return DTYPES.get(kind.tensor_type.elem_type) if kind.HasField("tensor_type") else None


def element_type(kind: onnx.TypeProto | None) -> int | None:
    """The ONNX element type of a tensor type, else None."""
    return int(kind.tensor_type.elem_type) if kind is not None and kind.HasField("tensor_type") else None


def need_tensor_type(kind: onnx.TypeProto) -> DType:
    """Returns the dtype of a graph input or output. Raises Fault unless it is a tensor of a supported dtype."""
    variant = kind.WhichOneof("value")
    if variant is None:
        raise Fault("its type is not stated")
    if variant != "tensor_type":
        raise Unsupported(f"it is {with_article(variant)}; treadle takes and returns tensors only")
    dtype = DTYPES.get(kind.tensor_type.elem_type)
    if dtype is None:
        name = element_type_name(kind.tensor_type.elem_type)
        known = ", ".join(TensorProto.DataType.Name(number) for number in DTYPES)
        raise Unsupported(f"its element type is {name}; wanted one of {known}")
    return dtype


def with_article(variant: str) -> str:
    """`sequence_type` -> `a sequence`, `optional_type` -> `an optional`."""
    noun = variant.removesuffix("_type").replace("_", " ")
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"


_IS_WILDCARD = re.compile(r"\?|None|unk__\d+").fullmatch
"""Finds names that exporters give to every dimension that they do not know: equal ones may have different sizes."""


class Symbols:
    """Names for dimensions: those the model gives, and `?0`, `?1`, ... for unnamed ones and wildcards."""

    def __init__(self, *, is_shared: bool = True) -> None:
        """Name the dimensions of one model, in which a name may stand for several ones if it `is_shared`."""
        self._numbers: Iterator[int] = count()
        self._is_shared = is_shared

    def shape(self, kind: onnx.TypeProto) -> Shape | None:
        """The shape of a tensor type, or None if it does not state its rank."""
        if not kind.tensor_type.HasField("shape"):
            return None
        return tuple(self._dim(dim) for dim in kind.tensor_type.shape.dim)

    def unnamed(self, shape: Shape | None) -> Shape | None:
        """`shape` with a name of its own for each dimension that is open."""
        if shape is None:
            return None
        return tuple(dim if isinstance(dim, int) else f"?{next(self._numbers)}" for dim in shape)

    def _dim(self, dim: onnx.TensorShapeProto.Dimension) -> Dim:
        if dim.HasField("dim_value") and dim.dim_value >= 0:
            return int(dim.dim_value)
        if self._is_shared and dim.HasField("dim_param") and dim.dim_param and not _IS_WILDCARD(dim.dim_param):
            return str(dim.dim_param)
        return f"?{next(self._numbers)}"
