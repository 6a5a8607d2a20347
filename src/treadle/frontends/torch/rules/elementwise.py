"""Elementwise ops, with PyTorch's type promotion."""

from __future__ import annotations

import math
from typing import Any

from treadle import dtypes
from treadle.frontends.faults import Fault, Unsupported
from treadle.frontends.torch.build import Builder
from treadle.frontends.torch.rules.rule import Operand, Rule, common, floating, promoted, value_of
from treadle.graph.value import Value


def same(op: str) -> Rule:
    """Returns a rule for an op that is the core op `op`, whatever the element type."""
    return lambda b, x: b.add(op, x)


def of_floats(op: str) -> Rule:
    """Returns a rule for an op that is the core op `op`, integers becoming floats first."""
    return lambda b, x: b.add(op, floating(b, x))


def rounding(op: str) -> Rule:
    """Returns a rule for an op that leaves integers as they are."""
    return lambda b, x: b.add(op, x) if x.known_dtype.is_float else x


def round_(b: Builder, x: Value, decimals: int = 0) -> Value:
    if decimals:
        raise Unsupported("it rounds to decimals; multiply, round and divide instead")
    return rounding("round")(b, x)  # type: ignore[no-any-return]


def trunc(b: Builder, x: Value) -> Value:
    """Rounds toward zero."""
    if not x.known_dtype.is_float:
        return x
    return b.add("where", b.add("lt", x, b.scalar(0, x.known_dtype)), b.add("ceil", x), b.add("floor", x))


def log_of(base: float) -> Rule:
    """Returns the rule of the logarithm to another base."""

    def rule(b: Builder, x: Value) -> Value:
        wide = floating(b, x)
        return b.add("mul", b.add("log", wide), b.scalar(1 / math.log(base), wide.known_dtype))

    return rule


def exp2(b: Builder, x: Value) -> Value:
    wide = floating(b, x)
    return b.add("pow", b.scalar(2, wide.known_dtype), wide)


def square(b: Builder, x: Value) -> Value:
    return mul(b, x, x)


def sign(b: Builder, x: Value) -> Value:
    """Returns -1, 0 or 1, and 0 for NaN; bools are unchanged."""
    if x.dtype == dtypes.boolean:
        return x
    found = b.add("sign", x)
    return b.add("where", b.add("isnan", x), b.scalar(0, x.known_dtype), found) if x.known_dtype.is_float else found


def abs_(b: Builder, x: Value) -> Value:
    return x if x.known_dtype.kind in ("bool", "uint") else b.add("abs", x)


def relu(b: Builder, x: Value) -> Value:
    return b.add("relu", x)


def isnan(b: Builder, x: Value) -> Value:
    return b.add("isnan", x) if x.known_dtype.is_float else b.add("ne", x, x)


def isinf(b: Builder, x: Value) -> Value:
    return b.add("isinf", x) if x.known_dtype.is_float else b.add("ne", x, x)


def isfinite(b: Builder, x: Value) -> Value:
    return b.add("not", b.add("or", isnan(b, x), isinf(b, x)))


def _scaled(b: Builder, x: Operand, other: Operand, alpha: Operand) -> Operand:
    if isinstance(alpha, float) and not common(x, other).is_float:
        raise Fault("For integral input tensors, argument alpha must not be a floating point number.")
    return other if not isinstance(alpha, Value) and alpha == 1 else mul(b, other, alpha)


def add(b: Builder, x: Operand, y: Operand, alpha: Operand = 1) -> Value:
    """Returns x + alpha y; for bools, the logical or."""
    left, right = promoted(b, x, _scaled(b, x, y, alpha))
    return b.add("or" if left.dtype == dtypes.boolean else "add", left, right)


def sub(b: Builder, x: Operand, y: Operand, alpha: Operand = 1) -> Value:
    """Returns x - alpha y."""
    left, right = promoted(b, x, _scaled(b, x, y, alpha))
    if left.dtype == dtypes.boolean:
        raise Fault("bools cannot be subtracted; use logical_xor")
    return b.add("sub", left, right)


def rsub(b: Builder, x: Operand, y: Operand, alpha: Operand = 1) -> Value:
    """Returns y - alpha x."""
    return sub(b, y, x, alpha)


def mul(b: Builder, x: Operand, y: Operand) -> Value:
    """Returns x y; for bools, the logical and."""
    left, right = promoted(b, x, y)
    return b.add("and" if left.dtype == dtypes.boolean else "mul", left, right)


def div(b: Builder, x: Operand, y: Operand, rounding_mode: str | None = None) -> Value:
    """Returns x / y as floats; with rounding_mode "floor" or "trunc", integers stay integers."""
    if rounding_mode is None:
        return b.add("div", *promoted(b, x, y, floating=True))
    left, right = promoted(b, x, y)
    quotient = b.add("div", left, right)
    if left.known_dtype.is_float:
        return b.add("floor", quotient) if rounding_mode == "floor" else trunc(b, quotient)
    if rounding_mode == "trunc":
        return quotient
    return b.add("div", b.add("sub", left, b.add("mod", left, right)), right)


def floor_divide(b: Builder, x: Operand, y: Operand) -> Value:
    return div(b, x, y, "floor")


def binary(op: str) -> Rule:
    """Returns a rule for a core op on two operands of one dtype."""
    return lambda b, x, y: b.add(op, *promoted(b, x, y))


def power(b: Builder, x: Operand, y: Operand) -> Value:
    """Returns x ** y; small whole exponents become products."""
    dtype = common(x, y)
    if isinstance(x, Value) and isinstance(y, int | float) and dtype.is_float:
        wide = b.cast(x, dtype)
        if y == 1:
            return wide
        if y in (2, 3):
            squared = b.add("mul", wide, wide)
            return squared if y == 2 else b.add("mul", squared, wide)
        if y in (0.5, -0.5):
            return b.add("sqrt" if y > 0 else "rsqrt", wide)
        if y == -1:
            return b.add("reciprocal", wide)
    return b.add("pow", *promoted(b, x, y))


def atan2(b: Builder, y: Operand, x: Operand) -> Value:
    """Returns the angle of the point (x, y), in [-pi, pi].

    Signs of zeros and infinities count as in C (ISO C, annex F.10.1.4).
    """
    up, right = promoted(b, y, x, floating=True)
    dtype = up.known_dtype
    one, zero = b.scalar(1, dtype), b.scalar(0, dtype)
    endless = b.add("and", b.add("isinf", up), b.add("isinf", right))
    rise, run = (b.add("where", endless, _signed(b, one, each), each) for each in (up, right))
    origin = b.add("and", b.add("eq", up, zero), b.add("eq", right, zero))
    slope = b.add("where", origin, up, b.add("atan", b.add("div", rise, run)))
    turned = b.add("add", slope, _signed(b, b.scalar(math.pi, dtype), up))
    return b.add("where", _is_negative(b, right), turned, slope)


def _is_negative(b: Builder, x: Value) -> Value:
    """Returns whether the sign bit of `x` is set; False for NaN."""
    zero = b.scalar(0, x.known_dtype)
    return b.add("or", b.add("lt", x, zero), b.add("lt", b.add("reciprocal", x), zero))


def _signed(b: Builder, size: Value, like: Value) -> Value:
    """Returns `size` with the sign of `like`."""
    return b.add("where", _is_negative(b, like), b.add("neg", size), size)


def shift(direction: str) -> Rule:
    """Returns the rule of x << y or x >> y, of integers."""
    return lambda b, x, y: b.add(f"shift_{direction}", *promoted(b, x, y))


def bitwise(word: str) -> Rule:
    """Returns the rule of and, or, xor on bits; of bools on truth values."""

    def rule(b: Builder, x: Operand, y: Operand) -> Value:
        left, right = promoted(b, x, y)
        return b.add(word if left.dtype == dtypes.boolean else f"bitwise_{word}", left, right)

    return rule


def bitwise_not(b: Builder, x: Value) -> Value:
    return b.add("not" if x.dtype == dtypes.boolean else "bitwise_not", x)


def logical(word: str) -> Rule:
    """Returns the rule of and, or, xor, not on truth values."""
    return lambda b, *operands: b.add(word, *(to_bool(b, operand) for operand in operands))


def to_bool(b: Builder, x: Operand) -> Value:
    """Returns whether elements are not 0."""
    value = value_of(b, x, common(x))
    return value if value.dtype == dtypes.boolean else b.add("ne", value, b.scalar(0, value.known_dtype))


def where(b: Builder, condition: Value, x: Operand, y: Operand) -> Value:
    return b.add("where", to_bool(b, condition), *promoted(b, x, y))


def masked_fill(b: Builder, x: Value, mask: Value, number: Operand) -> Value:
    """Returns `number` where the mask is true, else x."""
    return b.add("where", mask, value_of(b, number, x.known_dtype), x)


def clamp(b: Builder, x: Value, low: Operand | None = None, high: Operand | None = None) -> Value:
    """Limits x to [low, high]; None means no limit, and a NaN limit makes all elements NaN."""
    given = [operand for operand in (low, high) if operand is not None]
    wide, *limits = promoted(b, x, *given)
    if any(isinstance(operand, float) and math.isnan(operand) for operand in given):
        return b.full(math.nan, wide.known_dtype, b.shape(wide))
    if len(given) == 2:
        return b.add("clip", wide, *limits)
    return b.add("min" if low is None else "max", wide, *limits) if limits else wide


def clamp_max(b: Builder, x: Value, high: Operand) -> Value:
    return clamp(b, x, None, high)


def lerp(b: Builder, x: Value, end: Value, weight: Operand) -> Value:
    """Returns x + weight (end - x)."""
    return add(b, x, mul(b, sub(b, end, x), weight))


def addcmul(b: Builder, x: Value, one: Value, two: Value, factor: Operand = 1) -> Value:
    """Returns x + factor one two."""
    return add(b, x, mul(b, one, two), factor)


def addcdiv(b: Builder, x: Value, one: Value, two: Value, factor: Operand = 1) -> Value:
    """Returns x + factor one / two."""
    return add(b, x, div(b, one, two), factor)


def cast_to(dtype: dtypes.DType) -> Rule:
    """Returns a rule for a cast that is an op of its own (`x.float()`)."""

    def rule(b: Builder, x: Value, *_: Any) -> Value:
        return b.cast(x, dtype)

    return rule
