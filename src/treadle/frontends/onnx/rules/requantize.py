"""Requantization, shared by rules for quantized operators: i32 sums become 8-bit numbers of another scale."""

import numpy as np

from treadle import dtypes
from treadle.dtypes import DType
from treadle.frontends.onnx.build import Builder
from treadle.graph.value import Value
from treadle.records import dataclass


@dataclass(frozen=True, slots=True)
class Places:
    """The operand numbers of both factors and of their zero points."""

    a: int
    a_zero: int
    b: int
    b_zero: int


INTEGER = Places(0, 2, 1, 3)
"""Of ConvInteger and MatMulInteger."""

QUANTIZED = Places(0, 2, 3, 5)
"""Of QLinearConv and QLinearMatMul."""


def wide(value: Value, b: Builder) -> Value:
    """`value` as i32."""
    return b.add("cast", value, to=dtypes.i32)


def saturated(whole: Value, b: Builder, to: DType) -> Value:
    """Returns integral f32 numbers as the integer type `to`, saturated at its limits."""
    limits = np.iinfo(to.numpy)
    low, high = b.scalar(limits.min, dtypes.f32), b.scalar(limits.max, dtypes.f32)
    return b.add("cast", b.add("clip", whole, low, high), to=to)


def requantized(number: Value, zero: Value, to: DType, b: Builder) -> Value:
    """round(`number`) + `zero`, halves to even, as `to`; `number` is f32, `zero` broadcasts to it."""
    return saturated(b.add("add", b.add("round", number), b.add("cast", zero, to=dtypes.f32)), b, to)


def requantized_sums(sums: Value, factor: Value, zero: Value, to: DType, b: Builder) -> Value:
    """Sums of products, in i32, in steps that `factor` of 1 makes: round(`sums` * `factor`) + `zero` as `to`."""
    return requantized(b.add("mul", b.add("cast", sums, to=dtypes.f32), factor), zero, to, b)
