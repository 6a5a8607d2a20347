"""Real numbers that are computed from sizes: their bits as integers, and their rounding to f32."""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np

from treadle.graph.dim import DimExpr, RealExpr, computed

_FEW = 1 << 12
"""A product of a size and a factor up to this, of as few bits behind the point, is exact in f64."""


def bits_of_real(number: float) -> int:
    """Returns the bits of `number` as an f64; an expression if it is one."""
    return computed("bits_of_real", bits_of_number, (number,))


def real_of_bits(bits: int) -> float:
    """Returns the f64 with these `bits`; an expression if they are one."""
    return bits.rules.real("of_bits", bits) if isinstance(bits, DimExpr) else number_of_bits(bits)


def single(number: float) -> float:
    """Returns `number` rounded to f32, halves to even; an expression if it is one."""
    if isinstance(number, DimExpr | RealExpr):
        return number.rules.real("single", number)
    return single_number(number)


def root(number: float) -> float:
    """Returns the square root of `number`; an expression if it is one."""
    if isinstance(number, DimExpr | RealExpr):
        return number.rules.real("sqrt", number)
    return math.sqrt(number)


def fraction_of(number: float) -> tuple[int, int] | None:
    """Returns a size and a number whose quotient `number` is, if it is a size times or by a number of few bits."""
    if not isinstance(number, RealExpr) or number.op not in ("mul", "div"):
        return None
    left, right = number.args
    if type(right) is DimExpr and number.op == "mul":
        left, right = right, left
    if type(left) is not DimExpr or type(right) is not float or not 0 < abs(right) <= _FEW or right * _FEW % 1:
        return None
    numerator, denominator = right.as_integer_ratio()
    if number.op == "mul":
        return left * numerator, denominator
    return (left, numerator) if denominator == 1 else None  # then rounding to f64 reaches no whole number


def bits_of_number(number: float) -> int:
    """Returns the bits of a number as an f64."""
    bits: int = struct.unpack("<q", struct.pack("<d", float(number)))[0]
    return bits


def number_of_bits(bits: int) -> float:
    """Returns the f64 with these bits."""
    number: float = struct.unpack("<d", struct.pack("<q", int(bits)))[0]
    return number


def single_number(number: Any) -> float:
    """Returns a number rounded to f32."""
    with np.errstate(over="ignore"):
        return float(np.float32(number))
