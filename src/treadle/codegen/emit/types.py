"""LLVM types of element types and vectors.

Types are made once a process: llvmlite formats the text of every object again, and a kernel names its types thousands
of times.
"""

from functools import lru_cache

from llvmlite import ir

from treadle.dtypes import DType, bf16, f16


class BFloatType(ir.Type):  # type: ignore[misc]
    """LLVM's `bfloat`: the upper half of a float."""

    def _to_string(self) -> str:
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BFloatType)

    def __hash__(self) -> int:
        return hash(BFloatType)


I1 = ir.IntType(1)
I8 = ir.IntType(8)
I32 = ir.IntType(32)
I16 = ir.IntType(16)
I64 = ir.IntType(64)
BFLOAT = BFloatType()
HALF = ir.HalfType()
FLOAT = ir.FloatType()
DOUBLE = ir.DoubleType()
POINTER = ir.PointerType()

_FLOATS = {8: DOUBLE, 4: FLOAT}


@lru_cache(maxsize=64)
def scalar(dtype: DType) -> ir.Type:
    """The type of one element in memory. Booleans are bytes holding 0 or 1, bf16 and f16 are their bits."""
    if dtype in (bf16, f16):
        return I16
    if dtype.is_float:
        return _FLOATS[dtype.size]
    return ir.IntType(8 * dtype.size)


def vector(dtype: DType, lanes: int) -> ir.Type:
    """The type of `lanes` elements; of one element where `lanes` is 1."""
    return scalar(dtype) if lanes == 1 else vector_of(scalar(dtype), lanes)


@lru_cache(maxsize=256)
def vector_of(element: ir.Type, lanes: int) -> ir.Type:
    """The vector type of `lanes` elements of the LLVM type `element`."""
    return ir.VectorType(element, lanes)


def with_element(like: ir.Type, element: ir.Type) -> ir.Type:
    """A type shaped as `like` (scalar or vector) with another element type."""
    return vector_of(element, like.count) if isinstance(like, ir.VectorType) else element


def lanes_of(type_: ir.Type) -> int:
    """The number of lanes: 1 for scalars."""
    return type_.count if isinstance(type_, ir.VectorType) else 1


def element_of(type_: ir.Type) -> ir.Type:
    """The element type of a vector, or the scalar type itself."""
    return type_.element if isinstance(type_, ir.VectorType) else type_
