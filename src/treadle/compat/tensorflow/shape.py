"""tf.TensorShape: what is known of a shape while a graph is built."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

from treadle.compat.tensorflow.dtypes import as_dtype


class TensorShape:
    """Dimensions, each a number or None if unknown; `TensorShape(None)` has an unknown rank.

    See tf.TensorShape in TensorFlow's documentation.
    """

    __slots__ = ("_dims",)

    def __init__(self, dims: Any = None) -> None:
        if isinstance(dims, TensorShape):
            self._dims: tuple[int | None, ...] | None = dims.dims
        elif dims is None:
            self._dims = None
        else:
            given = [dims] if isinstance(dims, int) else dims
            self._dims = tuple(None if dim is None or int(dim) < 0 else int(dim) for dim in given)

    @property
    def rank(self) -> int | None:
        """The number of dimensions; None if unknown."""
        return None if self._dims is None else len(self._dims)

    @property
    def ndims(self) -> int | None:
        """The same as `rank`."""
        return self.rank

    @property
    def dims(self) -> tuple[int | None, ...] | None:
        """The dimensions, with None for unknown ones; None if the rank is unknown."""
        return self._dims

    def as_list(self) -> list[int | None]:
        """Return the dimensions. Raises ValueError if the rank is unknown."""
        if self._dims is None:
            raise ValueError("as_list() is not defined on an unknown TensorShape.")
        return list(self._dims)

    def is_fully_defined(self) -> bool:
        """Return whether all dimensions are known."""
        return self._dims is not None and None not in self._dims

    def static(self) -> tuple[int, ...]:
        """Return the dimensions as numbers. The shape must be fully defined."""
        assert self._dims is not None
        return cast("tuple[int, ...]", self._dims)

    def num_elements(self) -> int | None:
        """Return the number of elements, None if unknown."""
        if not self.is_fully_defined():
            return None
        total = 1
        for dim in self.static():
            total *= dim
        return total

    def is_compatible_with(self, other: Any) -> bool:
        """Return whether a tensor could have both shapes."""
        mine, others = self._dims, TensorShape(other).dims
        if mine is None or others is None:
            return True
        return len(mine) == len(others) and all(
            a is None or b is None or a == b for a, b in zip(mine, others, strict=True)
        )

    def merge_with(self, other: Any) -> TensorShape:
        """Return what both shapes say together. Raises ValueError if they contradict each other."""
        other = TensorShape(other)
        if not self.is_compatible_with(other):
            raise ValueError(f"Shapes {self} and {other} are not compatible")
        if self._dims is None or other._dims is None:
            return other if self._dims is None else self
        return TensorShape([b if a is None else a for a, b in zip(self._dims, other._dims, strict=True)])

    def concatenate(self, other: Any) -> TensorShape:
        """Return these dimensions followed by those of `other`."""
        more = TensorShape(other).dims
        return TensorShape(None if self._dims is None or more is None else [*self._dims, *more])

    def __add__(self, other: Any) -> TensorShape:
        return self.concatenate(other)

    def __radd__(self, other: Any) -> TensorShape:
        return TensorShape(other).concatenate(self)

    def assert_is_compatible_with(self, other: Any) -> None:
        """Raise ValueError if no tensor could have both shapes."""
        if not self.is_compatible_with(other):
            raise ValueError(f"Shapes {self} and {other} are incompatible")

    def assert_has_rank(self, rank: int) -> None:
        """Raise ValueError if the rank is known and differs."""
        if self.rank not in (None, rank):
            raise ValueError(f"Shape {self} must have rank {rank}")

    def with_rank(self, rank: int) -> TensorShape:
        """Return the shape with this rank. Raises ValueError if it has another one."""
        return self.merge_with([None] * rank)

    def __getitem__(self, key: Any) -> Any:
        if self._dims is None:
            return TensorShape(None) if isinstance(key, slice) else None
        found = self._dims[key]
        return TensorShape(found) if isinstance(key, slice) else found

    def __iter__(self) -> Iterator[int | None]:
        return iter(self.as_list())

    def __len__(self) -> int:
        if self._dims is None:
            raise ValueError("Cannot take the length of shape with unknown rank.")
        return len(self._dims)

    def __bool__(self) -> bool:
        return self._dims is not None

    def __eq__(self, other: object) -> bool:
        if isinstance(other, TensorShape) or other is None:
            return self._dims == TensorShape(other)._dims
        return isinstance(other, Sequence) and self._dims == tuple(other)

    def __hash__(self) -> int:
        return hash(self._dims)

    def __repr__(self) -> str:
        return f"TensorShape({None if self._dims is None else list(self._dims)})"

    def __str__(self) -> str:
        if self._dims is None:
            return "<unknown>"
        return f"({', '.join(map(str, self._dims))}{',' if len(self._dims) == 1 else ''})"


class TensorSpec:
    """The shape and dtype of a tensor, for which a tf.function may be traced.

    See tf.TensorSpec in TensorFlow's documentation.
    """

    __slots__ = ("dtype", "name", "shape")

    def __init__(self, shape: Any, dtype: Any = "float32", name: str | None = None) -> None:
        self.shape = TensorShape(shape)
        self.dtype = as_dtype(dtype)
        self.name = name

    @staticmethod
    def from_tensor(tensor: Any, name: str | None = None) -> TensorSpec:
        """Return the spec of `tensor`."""
        return TensorSpec(tensor.shape, tensor.dtype, name)

    def is_compatible_with(self, other: Any) -> bool:
        """Return whether a tensor or spec matches this one."""
        return bool(other.dtype == self.dtype and self.shape.is_compatible_with(other.shape))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TensorSpec) and (self.shape, self.dtype) == (other.shape, other.dtype)

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype))

    def __repr__(self) -> str:
        return f"TensorSpec(shape={self.shape}, dtype=tf.{self.dtype.name}, name={self.name!r})"
