"""Element types of tensors."""

from functools import lru_cache
from typing import Any, Literal

import numpy as np

from treadle.immutable import immutable

Kind = Literal["float", "int", "uint", "bool", "string"]


@immutable
class DType:
    """An element type: its `name` in the text form, and the bytes of an element."""

    name: str
    size: int
    kind: Kind

    def __eq__(self, other: object) -> bool:
        return self is other or (type(other) is DType and self.name == other.name)

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return self.name

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy dtype (bfloat16 comes from ml_dtypes; strings are object arrays)."""
        if self.name == "bf16":
            import ml_dtypes

            dtype: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
            return dtype
        return np.dtype(_NUMPY[self.name])

    @property
    def is_float(self) -> bool:
        """True for binary floating-point numbers, bf16 included."""
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        """True for signed and unsigned integers, but not for bool."""
        return self.kind in ("int", "uint")


f64 = DType("f64", 8, "float")
f32 = DType("f32", 4, "float")
f16 = DType("f16", 2, "float")
bf16 = DType("bf16", 2, "float")
i64 = DType("i64", 8, "int")
i32 = DType("i32", 4, "int")
i16 = DType("i16", 2, "int")
i8 = DType("i8", 1, "int")
u64 = DType("u64", 8, "uint")
u32 = DType("u32", 4, "uint")
u16 = DType("u16", 2, "uint")
u8 = DType("u8", 1, "uint")
boolean = DType("bool", 1, "bool")
string = DType("string", 8, "string")

ALL: tuple[DType, ...] = (f64, f32, f16, bf16, i64, i32, i16, i8, u64, u32, u16, u8, boolean, string)
BY_NAME: dict[str, DType] = {dtype.name: dtype for dtype in ALL}

_NUMPY: dict[str, str] = {
    "f64": "float64", "f32": "float32", "f16": "float16",
    "i64": "int64", "i32": "int32", "i16": "int16", "i8": "int8",
    "u64": "uint64", "u32": "uint32", "u16": "uint16", "u8": "uint8",
    "bool": "bool", "string": "object",
}  # fmt: skip
_FROM_NUMPY: dict[str, DType] = {numpy: BY_NAME[name] for name, numpy in _NUMPY.items()} | {"bfloat16": bf16}


@lru_cache(256)
def from_numpy(dtype: np.dtype[Any] | type) -> DType:
    """Return the element type of a NumPy dtype; str dtypes are strings.

    Raises TypeError for a dtype that no tensor has (complex, datetime, structured).
    """
    numpy = np.dtype(dtype)
    if numpy.kind in "US":
        return string
    found = _FROM_NUMPY.get(numpy.name)
    if found is None:
        raise TypeError(f"no tensor element type corresponds to the NumPy dtype {numpy}")
    return found
