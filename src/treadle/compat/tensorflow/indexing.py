"""tensor[...]: Python's indices as operands of the op `index`."""

from __future__ import annotations

from typing import Any

from treadle.compat.tensorflow.tensor import TensorLike, call


def indexed(tensor: TensorLike, key: Any) -> Any:
    """`tensor[key]`: numbers, slices, None, an Ellipsis, scalar tensors, or one boolean tensor."""
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
                "Only integers, slices (`:`), ellipsis (`...`), tf.newaxis (`None`) and scalar tf.int32/tf.int64 tensors "
                f"are valid indices, got {part!r}"
            )
        else:
            items.append(("at", bound(part)))
    return call("_index", tensor, bounds, tuple(items))
