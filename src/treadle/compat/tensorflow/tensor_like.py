"""What tensors and variables share: operators, indexing, and their use as keys."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from treadle.compat.tensorflow.dispatch import call
from treadle.compat.tensorflow.shape import TensorShape


@dataclass(frozen=True, slots=True)
class Reference:
    """A tensor or variable as a key of dictionaries and sets."""

    held: Any

    def deref(self) -> Any:
        """Return the tensor or variable."""
        return self.held

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reference) and self.held is other.held

    def __hash__(self) -> int:
        return id(self.held)


class TensorLike:
    """The common base of tensors and variables: operators, indexing, and conversion rules for NumPy."""

    __array_priority__ = 100

    @property
    def shape(self) -> TensorShape:
        """What is known of the shape."""
        raise NotImplementedError

    def get_shape(self) -> TensorShape:
        """Return `shape`."""
        return self.shape

    def __getitem__(self, key: Any) -> Any:
        return indexed(self, key)

    def ref(self) -> Reference:
        """Return a hashable reference, equal only to references to the same tensor or variable."""
        return Reference(self)

    def __len__(self) -> int:
        length = self.shape[0] if self.shape.rank else None
        if length is None:
            raise TypeError(f"len is not well defined for a tensor of shape {self.shape}")
        return int(length)

    def __iter__(self) -> Iterator[Any]:
        return (self[position] for position in range(len(self)))

    def __neg__(self) -> Any:
        return call("negative", self)

    def __abs__(self) -> Any:
        return call("abs", self)

    def __invert__(self) -> Any:
        return call("_not", self)

    __hash__ = object.__hash__


_OPERATORS = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "truediv", "floordiv": "floordiv", "mod": "floormod",
    "pow": "pow", "matmul": "matmul", "and": "_and", "or": "_or", "xor": "_xor",
}  # fmt: skip
_COMPARISONS = {"lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal"}


def _install(method: str, op: str) -> None:
    name = method if method in _OPERATORS else None
    setattr(TensorLike, f"__{method}__", lambda self, other: call(op, self, other, name=name))
    if name is not None:
        setattr(TensorLike, f"__r{method}__", lambda self, other: call(op, other, self, name=name))


for _method, _op in (_OPERATORS | _COMPARISONS).items():
    _install(_method, _op)


def indexed(tensor: TensorLike, key: Any) -> Any:
    """Return `tensor[key]`: numbers, slices, None, an Ellipsis, scalar tensors, or one boolean tensor."""
    key = tuple(key) if isinstance(key, list) else key
    dtype = getattr(key, "dtype", None)
    if dtype is not None and getattr(key, "shape", None) is not None and (dtype == "bool" or len(key.shape)):
        return call("boolean_mask" if dtype == "bool" else "gather", tensor, key)
    items: list[tuple[Any, ...]] = []
    bounds: list[Any] = []

    def bound(number: Any) -> int:
        bounds.append(number)
        return len(bounds) - 1

    for part in key if isinstance(key, tuple) else (key,):
        if part is None:
            items.append(("new",))
        elif part is Ellipsis:
            items.append(("rest",))
        elif isinstance(part, slice):
            ends = (part.start, part.stop, part.step)
            items.append(("slice", *(None if number is None else bound(number) for number in ends)))
        elif not hasattr(part, "__index__") and not isinstance(part, TensorLike):
            raise TypeError(
                "Only integers, slices (`:`), ellipsis (`...`), tf.newaxis (`None`) and scalar tf.int32/tf.int64 "
                f"tensors are valid indices, got {part!r}"
            )
        else:
            items.append(("at", bound(part)))
    return call("_index", tensor, bounds, tuple(items))
