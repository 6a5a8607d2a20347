"""Tensors created from sizes and numbers: arange, full, zeros, eye. Layout, device and pinning are ignored."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from treadle import dtypes
from treadle.dtypes import DType
from treadle.frontends.faults import Unsupported
from treadle.frontends.torch.build import Builder, Number
from treadle.frontends.torch.rules.rule import Operand, Rule, known_number, require_known, value_of
from treadle.graph.dim import DimExpr, RealExpr, is_expression, maximum
from treadle.graph.value import Value
from treadle.ops.op import Array


def number_dtype(number: Operand) -> DType:
    """Returns the dtype of a tensor made of a Python number."""
    if isinstance(number, Number):
        return number.value.known_dtype
    if isinstance(number, Value):
        return number.known_dtype
    return (
        dtypes.boolean if isinstance(number, bool) else dtypes.i64 if isinstance(number, int | DimExpr) else dtypes.f32
    )


def _filled(b: Builder, number: Operand, dtype: DType, shape: Sequence[int]) -> Value:
    if isinstance(number, Number | Value):
        return b.expand(value_of(b, number, dtype), shape)
    return b.full(number, dtype, tuple(shape))


def full(b: Builder, shape: Sequence[int], number: Operand, dtype: DType | None = None, *_: Any) -> Value:
    return _filled(b, number, dtype or number_dtype(number), shape)


def constant(number: float) -> Rule:
    """Returns the rule of zeros and ones."""
    return lambda b, shape, dtype=None, *_: b.full(number, dtype or dtypes.f32, tuple(shape))


def constant_like(number: float) -> Rule:
    """Returns the rule of zeros_like and ones_like."""
    return lambda b, x, dtype=None, *_: b.full(number, dtype or x.known_dtype, b.shape(x))


def new_constant(number: float) -> Rule:
    """Returns the rule of new_zeros and new_ones."""
    return lambda b, x, shape, dtype=None, *_: b.full(number, dtype or x.known_dtype, tuple(shape))


def full_like(b: Builder, x: Value, number: Operand, dtype: DType | None = None, *_: Any) -> Value:
    return _filled(b, number, dtype or x.known_dtype, b.shape(x))


def new_full(b: Builder, x: Value, shape: Sequence[int], number: Operand, dtype: DType | None = None, *_: Any) -> Value:
    return _filled(b, number, dtype or x.known_dtype, shape)


def fill(b: Builder, x: Value, number: Operand) -> Value:
    return _filled(b, number, x.known_dtype, b.shape(x))


def zero(b: Builder, x: Value) -> Value:
    return fill(b, x, 0)


def arange(b: Builder, end: float, dtype: DType | None = None, *_: Any) -> Value:
    return arange_step(b, 0, end, 1, dtype)


def arange_start(b: Builder, start: float, end: float, dtype: DType | None = None, *_: Any) -> Value:
    return arange_step(b, start, end, 1, dtype)


def arange_step(b: Builder, start: float, end: float, step: float = 1, dtype: DType | None = None, *_: Any) -> Value:
    start, end, step = (known_number(bound) for bound in (start, end, step))
    require_known(start, end, step)
    floats = any(isinstance(limit, float) for limit in (start, end, step))
    if any(map(is_expression, (start, end, step))):
        if floats or any(isinstance(limit, RealExpr) for limit in (start, end, step)):
            count = maximum(0, math.ceil((end - start) / step))
            return b.cast(_evenly_spaced(b, start, step, count), dtype or dtypes.f32)
        made = b.add("range", *(b.scalar(limit, dtypes.i64) for limit in (start, end, step)))
        return b.cast(made, dtype or dtypes.i64)
    found: Array = np.arange(start, end, step)
    return b.constant(found.astype((dtype or (dtypes.f32 if floats else dtypes.i64)).numpy))


def linspace(b: Builder, start: float, end: float, steps: int, dtype: DType | None = None, *_: Any) -> Value:
    start, end, steps = (known_number(bound) for bound in (start, end, steps))
    require_known(start, end, steps)
    if any(map(is_expression, (start, end, steps))):
        spaced = _evenly_spaced(b, start, (end - start) / maximum(1, steps - 1), steps)
        return b.cast(spaced, dtype or dtypes.f32)
    return b.constant(np.linspace(start, end, steps).astype((dtype or dtypes.f32).numpy))


def _evenly_spaced(b: Builder, start: float, step: float, count: int) -> Value:
    """Returns f64[count]: `start`, then each number `step` more than the one before."""
    places = b.cast(arange(b, count), dtypes.f64)
    return b.add("add", b.add("mul", places, b.scalar(step, dtypes.f64)), b.scalar(start, dtypes.f64))


def eye(b: Builder, rows: int, dtype: DType | None = None, *_: Any) -> Value:
    return eye_m(b, rows, rows, dtype)


def eye_m(b: Builder, rows: int, columns: int, dtype: DType | None = None, *_: Any) -> Value:
    if is_expression(rows) or is_expression(columns):
        down, across = (arange(b, size) for size in (rows, columns))
        return b.cast(b.add("eq", b.reshape(down, [rows, 1]), across), dtype or dtypes.f32)
    return b.constant(np.eye(rows, columns, dtype=(dtype or dtypes.f32).numpy))


def scalar_tensor(b: Builder, number: Operand, dtype: DType | None = None, *_: Any) -> Value:
    return _filled(b, number, dtype or dtypes.f32, ())


def tensor(b: Builder, data: Any, dtype: DType | None = None, *_: Any) -> Value:
    """Returns torch.tensor of a number or of nested lists of numbers."""
    if isinstance(data, Value | Number):
        return value_of(b, data, dtype or number_dtype(data))
    if is_expression(data):
        return b.scalar(data, dtype or number_dtype(data))
    array = np.asarray(data)
    natural = dtypes.f32 if array.dtype.kind == "f" else dtypes.from_numpy(array.dtype)
    return b.constant(array.astype((dtype or natural).numpy))


def random(*_: object) -> Value:
    raise Unsupported("it draws random numbers; pass them in as an input")


def to_dtype(b: Builder, x: Value, dtype: DType | None = None, *_: Any) -> Value:
    return x if dtype is None else b.cast(x, dtype)


def to_device(b: Builder, x: Value, device: object, dtype: DType | None = None, *_: Any) -> Value:  # noqa: ARG001
    return to_dtype(b, x, dtype)


def to_other(b: Builder, x: Value, other: Value, *_: Any) -> Value:
    return b.cast(x, other.known_dtype)
