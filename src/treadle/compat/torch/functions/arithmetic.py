"""Elementwise arithmetic, comparison and logic, with PyTorch's type promotion."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from treadle.compat.torch import dtypes
from treadle.compat.torch.dispatch import tensor_function
from treadle.compat.torch.dtypes import dtype
from treadle.compat.torch.functions.promotion import (
    Operand,
    as_tensor,
    cast,
    common,
    common_type,
)
from treadle.compat.torch.functions.rule import apply_rule, of_op
from treadle.compat.torch.overflow import checked_scalar, require_fit
from treadle.compat.torch.recording import emit
from treadle.compat.torch.tensor import Tensor


def unary(op: str, name: str = "", *, floats: bool = True) -> Callable[..., Tensor]:
    """Returns the function of a scalar op; with `floats`, integers are converted to float32 first."""

    def function(input: Tensor, *, inplace: bool = False) -> Tensor:
        (x,), _ = common(as_tensor(input), least=dtypes.float32 if floats else None)
        return emit(op, x)

    function.__name__ = name or op
    function.__doc__ = f"Computes {function.__name__} of each element."
    return tensor_function(function)


def binary(op: str, name: str = "", *, least: dtype | None = None) -> Callable[..., Tensor]:
    """Returns the function of a scalar op with two operands."""

    def function(input: Operand, other: Operand) -> Tensor:
        operands, to = common(input, other, least=least)
        return emit(op, *operands) if to is not dtypes.bool_ else _of_bools(op, operands)

    function.__name__ = name or op
    function.__doc__ = f"Computes {function.__name__} of each pair of elements, in their promoted dtype."
    return tensor_function(function)


def _of_bools(op: str, operands: list[Any]) -> Tensor:
    """Emits a scalar op on bools, where False < True."""
    if op in _EXTREMES_OF_BOOLS:
        return emit(_EXTREMES_OF_BOOLS[op], *operands)
    if op in ("eq", "ne"):
        return emit(op, *operands)
    if op == "fmod":
        raise NotImplementedError("\"fmod_cpu\" not implemented for 'Bool'")
    return emit(op, *(cast(as_tensor(each), dtypes.uint8) for each in operands))


_EXTREMES_OF_BOOLS = {"max": "or", "min": "and"}


def _scaled(input: Operand, other: Operand, alpha: float) -> Operand:
    if isinstance(alpha, float) and not common_type(input, other).is_floating_point:
        raise RuntimeError("For integral input tensors, argument alpha must not be a floating point number.")
    return other if alpha == 1 else mul(other, alpha)


@tensor_function
def add(input: Operand, other: Operand, *, alpha: float = 1) -> Tensor:
    """Returns input + alpha * other; for bools, the logical or."""
    operands, to = common(input, _scaled(input, other, alpha))
    return emit("or" if to is dtypes.bool_ else "add", *operands)


@tensor_function
def sub(input: Operand, other: Operand, *, alpha: float = 1) -> Tensor:
    """Returns input - alpha * other. Raises RuntimeError for bools."""
    operands, to = common(input, _scaled(input, other, alpha))
    if to is dtypes.bool_:
        raise RuntimeError("Subtraction, the `-` operator, with two bool tensors is not supported. Use `^` instead.")
    if any(as_tensor(each).dtype is dtypes.bool_ for each in (input, other)):
        raise RuntimeError(
            "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert a mask, "
            "use the `~` or `logical_not()` operator instead."
        )
    return emit("sub", *operands)


@tensor_function
def mul(input: Operand, other: Operand) -> Tensor:
    """Returns input * other; for bools, the logical and."""
    operands, to = common(input, other)
    return emit("and" if to is dtypes.bool_ else "mul", *operands)


@tensor_function
def div(input: Operand, other: Operand, *, rounding_mode: str | None = None) -> Tensor:
    """Returns input / other as floats; with `rounding_mode` "trunc" or "floor", integers stay integers."""
    if rounding_mode not in (None, "trunc", "floor"):
        raise RuntimeError(
            f"div expected rounding_mode to be one of None, 'trunc', or 'floor' but found {rounding_mode!r}"
        )
    (a, b), to = common(input, other, least=dtypes.float32 if rounding_mode is None else None)
    quotient = emit("div", a, b)
    if rounding_mode is None:
        return quotient
    if to.is_floating_point:
        return emit("floor", quotient) if rounding_mode == "floor" else trunc(quotient)
    if rounding_mode == "trunc":
        return quotient
    return emit("div", emit("sub", a, emit("mod", a, b)), b)


@tensor_function
def floor_divide(input: Operand, other: Operand) -> Tensor:
    """Returns input // other, rounded down."""
    return div(input, other, rounding_mode="floor")


@tensor_function
def trunc(input: Tensor) -> Tensor:
    """Rounds toward zero."""
    if not input.dtype.is_floating_point:
        return floor(input)
    return emit("where", lt(input, 0), ceil(input), floor(input))


@tensor_function
def square(input: Tensor) -> Tensor:
    """Returns input * input."""
    return mul(input, cast(input, dtypes.int64) if input.dtype is dtypes.bool_ else input)


@tensor_function
def bitwise_not(input: Tensor) -> Tensor:
    """Returns ~input; for bools, the logical not."""
    return emit("not" if input.dtype is dtypes.bool_ else "bitwise_not", input)


def _bitwise(word: str) -> Callable[..., Tensor]:
    def function(input: Operand, other: Operand) -> Tensor:
        operands, to = common(input, other)
        return emit(word if to is dtypes.bool_ else f"bitwise_{word}", *operands)

    function.__name__ = f"bitwise_{word}"
    function.__doc__ = f"Computes {word} of the bits of each pair of elements, in their promoted dtype."
    return tensor_function(function)


def _logical(word: str) -> Callable[..., Tensor]:
    def function(input: Operand, *other: Operand) -> Tensor:
        return emit(word, *(cast(as_tensor(each), dtypes.bool_) for each in (input, *other)))

    function.__name__ = f"logical_{word}"
    function.__doc__ = f"Computes {word} of the truth values of elements, where all but 0 is true."
    return tensor_function(function)


@tensor_function
def where(condition: Tensor, input: Operand, other: Operand) -> Tensor:
    """Returns input where the condition (bool or uint8) is true, else other."""
    if condition.dtype not in (dtypes.bool_, dtypes.uint8):
        name = dtypes.SCALARS[condition.dtype.name]
        raise RuntimeError(f"where expected condition to be a boolean tensor, but got a tensor with dtype {name}")
    operands, to = common(input, other)
    for each in (input, other):
        if isinstance(each, bool | int | float) and to.name not in ("float16", "bfloat16"):
            require_fit(each, to)
    return emit("where", cast(condition, dtypes.bool_), *operands)


@tensor_function
def masked_fill(input: Tensor, mask: Tensor, value: Operand) -> Tensor:
    """Returns value where the mask (bool) is true, else input; keeps the dtype of input."""
    if mask.dtype is not dtypes.bool_:
        raise RuntimeError(f"masked_fill_ only supports boolean masks, but got mask with dtype {mask.dtype.name}")
    filling = value if isinstance(value, Tensor) else as_tensor(checked_scalar(value, input.dtype))
    return where(mask, cast(filling, input.dtype), input)


@tensor_function
def clamp(input: Tensor, min: Operand = None, max: Operand = None) -> Tensor:
    """Limits elements to [min, max]; None means no limit."""
    if min is None and max is None:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
    found: Tensor = apply_rule("clamp", (input, min, max))
    return found


@tensor_function
def lerp(input: Tensor, end: Tensor, weight: Operand) -> Tensor:
    """Returns input + weight * (end - input), computed from the nearer end."""
    difference = sub(end, input)
    if not isinstance(weight, Tensor):
        return add(input, mul(difference, weight)) if abs(weight) < 0.5 else sub(end, mul(difference, 1 - weight))
    return where(lt(abs_(weight), 0.5), add(input, mul(weight, difference)), sub(end, mul(difference, sub(1, weight))))


@tensor_function
def isclose(input: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
    """Returns whether |input - other| <= atol + rtol |other|, for each element."""
    if input.dtype is not other.dtype:
        names = (dtypes.SCALARS[each.dtype.name] for each in (input, other))
        raise RuntimeError(" did not match ".join(names))
    if input.dtype is dtypes.bool_:
        return isclose(cast(input, dtypes.float32), cast(other, dtypes.float32), rtol, atol, equal_nan)
    difference = abs_(sub(input, other))
    near = logical_or(
        eq(input, other), logical_and(isfinite(difference), le(difference, add(mul(abs_(other), rtol), atol)))
    )
    return logical_or(near, logical_and(isnan(input), isnan(other))) if equal_nan else near


@tensor_function
def allclose(input: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
    """Returns True if |input - other| <= atol + rtol |other| for all elements. Computes pending tensors."""
    return bool(np.allclose(input.numpy(), other.numpy(), rtol, atol, equal_nan))


@tensor_function
def equal(input: Tensor, other: Tensor) -> bool:
    """Returns True if shapes and elements are the same. Computes pending tensors."""
    return bool(np.array_equal(input.numpy(), other.numpy()))


@tensor_function
def isfinite(input: Tensor) -> Tensor:
    """Returns whether each element is neither infinite nor NaN."""
    return bitwise_not(logical_or(isinf(input), isnan(input)))


@tensor_function
def pow_(input: Operand, exponent: Operand) -> Tensor:
    """Returns input to the power of exponent. Raises RuntimeError for integers to a negative power."""
    (a, b), to = common(input, exponent)
    if to.category == 1 and not isinstance(exponent, Tensor) and exponent < 0:
        raise RuntimeError("Integers to negative integer powers are not allowed.")
    return emit("pow", a, b)


def _rounding(op: str) -> Callable[..., Tensor]:
    """Returns a rounding function; it leaves integers as they are."""

    def function(input: Tensor) -> Tensor:
        if input.dtype is dtypes.bool_:
            raise NotImplementedError(f"\"{op}_vml_cpu\" not implemented for 'Bool'")
        return emit(op if input.dtype.is_floating_point else "identity", input)

    function.__name__ = op
    function.__doc__ = (
        f"Computes {op} of each element; integers stay as they are. Raises NotImplementedError for bools."
    )
    return tensor_function(function)


@tensor_function
def round_(input: Tensor, *, decimals: int = 0) -> Tensor:
    """Rounds to `decimals` digits, halves to the even neighbour."""
    if not decimals:
        return _nearest(input)
    scale = 10.0**decimals
    return div(_nearest(mul(input, scale)), scale)


maximum, minimum = binary("max", "maximum"), binary("min", "minimum")
remainder, fmod = binary("mod", "remainder"), binary("fmod")
shift_left, shift_right = binary("shift_left"), binary("shift_right")
eq, ne, lt, le, gt, ge = (binary(op) for op in ("eq", "ne", "lt", "le", "gt", "ge"))
bitwise_and, bitwise_or, bitwise_xor = (_bitwise(word) for word in ("and", "or", "xor"))
logical_and, logical_or, logical_xor, logical_not = (_logical(word) for word in ("and", "or", "xor", "not"))
neg, abs_ = (unary(op, floats=False) for op in ("neg", "abs"))
sqrt, rsqrt, reciprocal = (unary(op) for op in ("sqrt", "rsqrt", "reciprocal"))
floor, ceil = (_rounding(op) for op in ("floor", "ceil"))
_nearest = _rounding("round")
isnan, isinf = unary("isnan"), unary("isinf")
addcdiv = of_op("addcdiv", lambda input, tensor1, tensor2, *, value=1: (input, tensor1, tensor2, value))
addcmul = of_op("addcmul", lambda input, tensor1, tensor2, *, value=1: (input, tensor1, tensor2, value))
clamp_max = of_op("clamp_max", lambda input, max: (input, max))
clamp_min = of_op("clamp_min", lambda input, min: (input, min))
sign = of_op("sign", lambda input: (input,))
rsub = of_op("rsub", lambda input, other, *, alpha=1: (input, other, alpha))
