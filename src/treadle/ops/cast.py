"""cast: conversion between element types."""

from collections.abc import Sequence

import numpy as np

from treadle import dtypes
from treadle.dtypes import DType
from treadle.ops.op import Array, Attrs, Info
from treadle.ops.operands import dims, operand, present, result

_SPECIAL = {"inf": "INF", "-inf": "-INF", "nan": "NaN"}


def cast_array(array: Array, to: DType) -> Array:
    """`array` as `to`: floats truncate toward zero to integers; any number but 0 is True as a bool."""
    source = dtypes.from_numpy(array.dtype)
    if source == to:
        return array
    if to == dtypes.string:
        texts = [_text(item) for item in array.ravel()]
        return np.array(texts, dtype=object).reshape(array.shape)
    with np.errstate(all="ignore"):
        if source == dtypes.string:
            parse = float if to.is_float else lambda text: int(float(text))
            numbers = [parse(str(item)) for item in array.ravel()]
            return np.array(numbers, dtype=to.numpy).reshape(array.shape)
        if to == dtypes.boolean:
            return np.asarray(array != 0).astype(np.bool_)
        if source.name == "bf16" or to.name == "bf16":
            array = array.astype(np.float64 if to == dtypes.f64 else np.float32) if source.is_float else array
        return array.astype(to.numpy)


def _text(item: object) -> str:
    plain = str(item)
    return _SPECIAL.get(plain, plain)


def infer_cast(attrs: Attrs, inputs: Sequence[Info | None], n_outputs: int) -> list[Info]:
    """attrs: to (DType)."""
    return [result(attrs["to"], dims(operand(inputs, 0, "x")))]


def evaluate_cast(attrs: Attrs, arrays: Sequence[Array | None]) -> list[Array]:
    return [cast_array(present(arrays, 0), attrs["to"])]
