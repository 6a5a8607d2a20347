"""Element types under TensorFlow's names."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle import dtypes as core
from treadle.frontends.tensorflow.tensors import NUMBERS


class DType:
    """An element type, such as `tf.float32`. See tf.dtypes.DType in TensorFlow's documentation.

    It is equal to other names of the type ("float32", np.float32).
    """

    __slots__ = ("core", "name")

    def __init__(self, name: str, core_dtype: core.DType) -> None:
        self.name = name
        self.core = core_dtype

    @property
    def as_numpy_dtype(self) -> Any:
        """The NumPy scalar type."""
        return self.core.numpy.type

    @property
    def is_floating(self) -> bool:
        """Whether it is a floating-point type."""
        return self.core.is_float

    @property
    def is_integer(self) -> bool:
        """Whether it is an integer type."""
        return self.core.is_integer

    @property
    def is_bool(self) -> bool:
        """Whether it is the boolean type."""
        return self.core is core.boolean

    @property
    def is_complex(self) -> bool:
        """False: there are no complex types."""
        return False

    @property
    def is_quantized(self) -> bool:
        """False: there are no quantised types."""
        return False

    @property
    def is_numpy_compatible(self) -> bool:
        """True: every type has a NumPy type."""
        return True

    @property
    def real_dtype(self) -> DType:
        """The type itself: there are no complex types."""
        return self

    @property
    def max(self) -> Any:
        """The largest number of the type. Raises TypeError for booleans and strings."""
        return _limits(self).max

    @property
    def min(self) -> Any:
        """The smallest number of the type. Raises TypeError for booleans and strings."""
        return _limits(self).min

    @property
    def limits(self) -> tuple[Any, Any]:
        """The range of values in images of the type: (0, 1) for floats."""
        return (0, 1) if self.is_floating else (0, self.max)

    @property
    def is_unsigned(self) -> bool:
        """Whether it is an unsigned integer type."""
        return self.core.numpy.kind == "u"

    @property
    def as_datatype_enum(self) -> int:
        """The number of the type in files."""
        return NUMBERS[self.core]

    def is_compatible_with(self, other: Any) -> bool:
        """Return whether `other` is the same type."""
        return bool(self == other)

    @property
    def size(self) -> int:
        """Bytes per element."""
        return self.core.size

    @property
    def base_dtype(self) -> DType:
        """The type itself: there are no reference types."""
        return self

    def __eq__(self, other: object) -> bool:
        if other is self:
            return True
        try:
            return as_dtype(other).core == self.core
        except TypeError:
            return False

    def __hash__(self) -> int:
        return hash(self.core)

    def __repr__(self) -> str:
        return f"tf.{self.name}"

    def __str__(self) -> str:
        return f"<dtype: {self.name!r}>"


def _limits(dtype: DType) -> Any:
    if dtype.is_floating:
        return np.finfo(dtype.core.numpy)
    if not dtype.is_integer:
        raise TypeError(f"Cannot find the largest or smallest value of {dtype!r}.")
    return np.iinfo(dtype.core.numpy)


_NAMES = {
    "float16": core.f16, "bfloat16": core.bf16, "float32": core.f32, "float64": core.f64, "int8": core.i8,
    "int16": core.i16, "int32": core.i32, "int64": core.i64, "uint8": core.u8, "uint16": core.u16, "uint32": core.u32,
    "uint64": core.u64, "bool": core.boolean, "string": core.string,
}  # fmt: skip
BY_NAME: dict[str, DType] = {name: DType(name, dtype) for name, dtype in _NAMES.items()}
_BY_CORE: dict[core.DType, DType] = {dtype.core: dtype for dtype in BY_NAME.values()}
_BY_NUMPY: dict[np.dtype[Any], DType] = {dtype.core.numpy: dtype for dtype in BY_NAME.values()}
_ALIASES = {"half": "float16", "float": "float32", "double": "float64", "str": "string"}


def as_dtype(value: Any) -> DType:
    """Return the element type for a tf.DType, a name, or a NumPy or Python type.

    See tf.dtypes.as_dtype in TensorFlow's documentation.

    Raises:
        TypeError: there is none.
    """
    if isinstance(value, DType):
        return value
    found = None
    if isinstance(value, np.dtype):
        found = _BY_NUMPY.get(value)
    elif isinstance(value, core.DType):
        found = _BY_CORE.get(value)
    elif isinstance(value, str):
        found = BY_NAME.get(_ALIASES.get(value, value))
    if found is not None:
        return found
    if value is None:
        raise TypeError("Cannot convert value None to a TensorFlow DType.")
    if value is float:
        return BY_NAME["float32"]
    if value is int:
        return BY_NAME["int32"]
    try:
        return _BY_CORE[core.from_numpy(np.dtype(value))]
    except TypeError:
        raise TypeError(f"Cannot convert {value!r} to a TensorFlow DType; there are {', '.join(BY_NAME)}") from None
