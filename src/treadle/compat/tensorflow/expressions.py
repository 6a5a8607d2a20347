"""Helpers that rewritten functions call for expressions (see `autograph`): Python's operators, or ops for tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from treadle.compat.tensorflow import control_flow
from treadle.compat.tensorflow.dispatch import call
from treadle.compat.tensorflow.functional import map_fn
from treadle.compat.tensorflow.tensor import Tensor
from treadle.compat.tensorflow.tensor_like import TensorLike


def both(first: Any, second: Callable[[], Any]) -> Any:
    """`first and second()`."""
    return call("logical_and", first, second()) if isinstance(first, Tensor) else first and second()


def either(first: Any, second: Callable[[], Any]) -> Any:
    """`first or second()`."""
    return call("logical_or", first, second()) if isinstance(first, Tensor) else first or second()


def both_in_turn(first: Any, second: Callable[[], Any]) -> Any:
    """`first and second()`, where the second operand is computed only if the first is true."""
    return control_flow.cond(first, second, lambda: False) if isinstance(first, Tensor) else first and second()


def either_in_turn(first: Any, second: Callable[[], Any]) -> Any:
    """`first or second()`, where the second operand is computed only if the first is false."""
    return control_flow.cond(first, lambda: True, second) if isinstance(first, Tensor) else first or second()


def negated(value: Any) -> Any:
    """`not value`."""
    return call("logical_not", value) if isinstance(value, Tensor) else not value


def equal(a: Any, b: Any) -> Any:
    """`a == b`, element by element in the graph."""
    return call("equal", a, b) if isinstance(a, Tensor) or isinstance(b, Tensor) else a == b


def unequal(a: Any, b: Any) -> Any:
    """`a != b`, element by element in the graph."""
    return call("not_equal", a, b) if isinstance(a, Tensor) or isinstance(b, Tensor) else a != b


def _range(*arguments: Any) -> Any:
    return call("range", *arguments) if any(isinstance(item, TensorLike) for item in arguments) else range(*arguments)


def _int(*arguments: Any, **how: Any) -> Any:
    return call("cast", arguments[0], "int32") if isinstance(arguments[0], Tensor) else int(*arguments, **how)


def _float(*arguments: Any) -> Any:
    return call("cast", arguments[0], "float32") if isinstance(arguments[0], Tensor) else float(*arguments)


def _length(value: Any) -> Any:
    if isinstance(value, Tensor) and (value.shape.rank is None or value.shape[0] is None):
        return call("_index", call("shape", value), [0], (("at", 0),))
    return len(value)


def _sorted(values: Any, /, *, key: Any = None, reverse: bool = False) -> Any:
    if not isinstance(values, Tensor):
        return sorted(values, key=key, reverse=reverse)
    if values.shape.rank not in (None, 1):
        raise ValueError(f"sort only supports only 1D tensors, got shape {values.shape}: use tf.sort(values, axis=...)")
    by = values if key is None else map_fn(key, values)
    return call("gather", values, call("argsort", by, direction="DESCENDING" if reverse else "ASCENDING", stable=True))


BUILTINS: dict[Any, Callable[..., Any]] = {range: _range, int: _int, float: _float, len: _length, sorted: _sorted}
"""What rewritten functions call in place of builtins that take tensors there."""
