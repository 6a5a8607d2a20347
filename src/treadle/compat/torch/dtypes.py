"""Dtypes under PyTorch's names, and type promotion."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from treadle import dtypes as core
from treadle.dtypes import DType
from treadle.graph.dim import DimExpr

Number = bool | int | float


class dtype:  # noqa: N801 - PyTorch's name
    """A dtype, such as `torch.float32`.

    Args:
        name: PyTorch's name without `torch.`.
        core: treadle's element type.
        rank: The order in type promotion within the category.
    """

    def __init__(self, name: str, core: DType, rank: int) -> None:
        self.name = name
        self.core = core
        self.rank = rank  # in promotion within the category

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy dtype."""
        return self.core.numpy

    @property
    def itemsize(self) -> int:
        """The size of an element in bytes."""
        return self.core.size

    @property
    def is_floating_point(self) -> bool:
        """True for floating-point dtypes."""
        return self.core.is_float

    @property
    def category(self) -> int:
        """0 for bool, 1 for integers, 2 for floats; promotion takes the highest."""
        return 2 if self.core.is_float else 1 if self.core.is_integer else 0

    def __repr__(self) -> str:
        return f"torch.{self.name}"


bool_ = dtype("bool", core.boolean, 0)
uint8 = dtype("uint8", core.u8, 0)
int8 = dtype("int8", core.i8, 0)
int16 = dtype("int16", core.i16, 1)
int32 = dtype("int32", core.i32, 2)
int64 = dtype("int64", core.i64, 3)
float16 = dtype("float16", core.f16, 0)
bfloat16 = dtype("bfloat16", core.bf16, 0)
float32 = dtype("float32", core.f32, 1)
float64 = dtype("float64", core.f64, 2)

ALL = (bool_, uint8, int8, int16, int32, int64, float16, bfloat16, float32, float64)
NAMES: dict[str, dtype] = {each.name: each for each in ALL} | {
    "short": int16,
    "int": int32,
    "long": int64,
    "half": float16,
    "float": float32,
    "double": float64,
}
"""Every name of a dtype, aliases included."""

_BY_CORE = {each.core.name: each for each in ALL}
_BY_NUMPY: dict[np.dtype[Any], dtype] = {}


LEGACY = {
    "bool": "BoolTensor", "uint8": "ByteTensor", "int8": "CharTensor", "int16": "ShortTensor", "int32": "IntTensor",
    "int64": "LongTensor", "float16": "HalfTensor", "bfloat16": "BFloat16Tensor", "float32": "FloatTensor",
    "float64": "DoubleTensor",
}  # fmt: skip
"""The legacy tensor class of each dtype."""


@dataclass(frozen=True, slots=True)
class finfo:  # noqa: N801 - PyTorch's name
    """The limits of a floating-point dtype: bits, dtype, eps, max, min, resolution, smallest_normal, tiny.

    Args:
        type: The dtype; None means float32.

    Raises:
        TypeError: On reading a limit, if the dtype is not a floating-point one.
    """

    type: dtype | None = None

    def __getattr__(self, name: str) -> Any:
        of = self.type or float32
        if not of.is_floating_point:
            raise TypeError(f"torch.finfo() requires a floating point input type. Use torch.iinfo to handle '{of}'")
        import ml_dtypes

        found: Any = ml_dtypes.finfo(of.numpy)  # type: ignore[no-untyped-call]
        names = {"smallest_normal": "smallest_normal", "tiny": "smallest_normal", "resolution": "resolution"}
        if name in ("max", "min", "eps") or name in names:
            return float(getattr(found, names.get(name, name)))
        if name in ("bits", "dtype"):
            return 8 * of.itemsize if name == "bits" else of.name
        raise AttributeError(f"torch.finfo has no {name!r}; it has bits, dtype, eps, max, min, resolution, tiny")


@dataclass(frozen=True, slots=True)
class iinfo:  # noqa: N801 - PyTorch's name
    """The limits of an integer dtype: bits, dtype, max, min.

    Args:
        type: The dtype.

    Raises:
        TypeError: On reading a limit, if the dtype is not an integer one.
    """

    type: dtype

    def __getattr__(self, name: str) -> Any:
        if self.type.category != 1:
            raise TypeError(f"torch.iinfo() requires an integer input type. Use torch.finfo to handle '{self.type}'")
        found = np.iinfo(self.type.numpy)
        if name in ("max", "min", "bits"):
            return int(getattr(found, name))
        if name == "dtype":
            return self.type.name
        raise AttributeError(f"torch.iinfo has no {name!r}; it has bits, dtype, max, min")


SCALARS = {
    "bool": "Bool", "uint8": "Byte", "int8": "Char", "int16": "Short", "int32": "Int", "int64": "Long",
    "float16": "Half", "bfloat16": "BFloat16", "float32": "Float", "float64": "Double",
}  # fmt: skip
"""PyTorch's names of dtypes in error messages."""


def of_core(core: DType) -> dtype:
    """Returns the dtype for a core element type. Raises TypeError for one that PyTorch does not have."""
    found = _BY_CORE.get(core.name)
    if found is None:
        raise TypeError(f"PyTorch has no element type for {core}; supported are {', '.join(map(repr, ALL))}")
    return found


def of_array(array: np.ndarray[Any, Any]) -> dtype:
    """Returns the dtype of an array. Raises TypeError for one that no tensor can have."""
    return of_numpy(array.dtype)


def of_numpy(kind: np.dtype[Any]) -> dtype:
    """Returns the dtype for a NumPy dtype. Raises TypeError for one that no tensor can have."""
    found = _BY_NUMPY.get(kind)
    if found is None:
        found = _BY_NUMPY[kind] = of_core(core.from_numpy(kind))
    return found


def of_number(number: Number) -> dtype:
    """Returns the dtype that a Python number gets in a tensor."""
    if isinstance(number, int | np.integer | DimExpr):
        return bool_ if isinstance(number, bool) else int64
    return bool_ if isinstance(number, np.bool_) else float32


def wider(a: dtype, b: dtype) -> dtype:
    """Returns the dtype that holds both, for operands of one kind (tensors with axes, tensors without, or numbers)."""
    if a.category != b.category:
        return a if a.category > b.category else b
    if a.rank != b.rank:
        return a if a.rank > b.rank else b
    if a is b:
        return a
    return float32 if a.is_floating_point else int16  # float16 with bfloat16, int8 with uint8


def promote_types(type1: dtype, type2: dtype) -> dtype:
    """Returns the dtype that both convert to."""
    return wider(type1, type2)


def promoted(dimensioned: list[dtype], scalars: list[dtype], numbers: list[dtype]) -> dtype:
    """Returns the common dtype of operands.

    Tensors with axes decide, unless a tensor without axes, or a number, is of a higher category.
    """
    result: dtype | None = None
    for group in (dimensioned, scalars, numbers):
        if not group:
            continue
        found = group[0]
        for other in group[1:]:
            found = wider(found, other)
        if result is None or found.category > result.category:
            result = found
    assert result is not None
    return result
