"""Arithmetic on scalars and vectors alike. Each function's docstring is its meaning for one lane."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from llvmlite import ir

from treadle.codegen.emit.kernel import Kernel
from treadle.codegen.emit.types import I32, element_of, lanes_of, vector, vector_of, with_element
from treadle.dtypes import DType


def splat(k: Kernel, value: ir.Value, lanes: int) -> ir.Value:
    """`value` in every lane; `value` itself for one lane."""
    if lanes == 1:
        return value
    nothing = undefined(vector_of(value.type, lanes))
    one = k.b.insert_element(nothing, value, I32(0))
    return k.b.shuffle_vector(one, nothing, lane_numbers((0,) * lanes))


def opaque(k: Kernel, value: ir.Value) -> ir.Value:
    """`value`, a pointer, or a vector of x86-64, such that the optimiser cannot know what it was computed from."""
    register = "r" if isinstance(value.type, ir.PointerType) else "v"
    return k.b.call(ir.InlineAsm(ir.FunctionType(value.type, [value.type]), "", f"={register},0"), [value])


def constant(dtype: DType, value: float, lanes: int = 1) -> ir.Constant:
    """The constant `value` in every lane."""
    return _everywhere(vector(dtype, lanes), repr(float(value)) if dtype.is_float else str(int(value)))


def zeros(dtype: DType, lanes: int) -> ir.Constant:
    """A vector of zeros as memory holds them, for dtypes too that no arithmetic has."""
    return ir.Constant(vector(dtype, lanes), None)


def like(value: ir.Value, number: float) -> ir.Constant:
    """The constant `number` with the type of `value`."""
    integer = isinstance(element_of(value.type), ir.IntType)
    return _everywhere(value.type, str(int(number)) if integer else repr(float(number)))


@lru_cache(maxsize=1 << 10)
def _everywhere(type_: ir.Type, number: str) -> ir.Constant:
    """The constant `number` in every lane. The cache key is its text, because 0.0 and -0.0 compare equal."""
    exact: float | int = int(number) if isinstance(element_of(type_), ir.IntType) else float(number)
    return ir.Constant(type_, exact)


@lru_cache(maxsize=1 << 10)
def lane_numbers(numbers: tuple[int, ...]) -> ir.Constant:
    """A vector of 32-bit `numbers`, such as shuffles take."""
    return ir.Constant(vector_of(I32, len(numbers)), list(numbers))


@lru_cache(maxsize=256)
def undefined(type_: ir.Type) -> ir.Constant:
    """A value of `type_` that may be anything."""
    return ir.Constant(type_, ir.Undefined)


def mangled(type_: ir.Type) -> str:
    """The suffix that names `type_` in intrinsics: f32, v16f32, i64."""
    element = element_of(type_)
    if isinstance(element, ir.IntType):
        text = f"i{element.width}"
    else:
        text = {"half": "f16", "float": "f32", "double": "f64"}[str(element)]
    return text if lanes_of(type_) == 1 else f"v{lanes_of(type_)}{text}"


def unary_intrinsic(k: Kernel, name: str, value: ir.Value) -> ir.Value:
    """llvm.<name>(value), lane by lane (sqrt, fabs, floor, ceil, roundeven, trunc, ...)."""
    function = k.intrinsic(f"llvm.{name}.{mangled(value.type)}", value.type, value.type)
    return k.b.call(function, [value])


def binary_intrinsic(k: Kernel, name: str, left: ir.Value, right: ir.Value) -> ir.Value:
    """llvm.<name>(left, right), lane by lane (minimum, maximum, minnum, maxnum, smin, copysign, ...)."""
    function = k.intrinsic(f"llvm.{name}.{mangled(left.type)}", left.type, left.type, left.type)
    return k.b.call(function, [left, right])


def fma(k: Kernel, a: ir.Value, c: ir.Value, addend: ir.Value) -> ir.Value:
    """a * c + addend, rounded once."""
    function = k.intrinsic(f"llvm.fma.{mangled(a.type)}", a.type, a.type, a.type, a.type)
    return k.b.call(function, [a, c, addend])


def multiply_add(k: Kernel, a: ir.Value, c: ir.Value, addend: ir.Value) -> ir.Value:
    """a * c + addend in one instruction where the target has it, else rounded twice. Integers too."""
    if isinstance(element_of(a.type), ir.IntType):
        return k.b.add(k.b.mul(a, c), addend)
    if k.target.isa == "generic" and k.target.triple.startswith(("x86_64", "i386", "i686")):
        return k.b.fadd(k.b.fmul(a, c), addend)
    return fma(k, a, c, addend)


def bits_of(k: Kernel, value: ir.Value) -> ir.Value:
    """The bit pattern of floats as integers of the same width."""
    width = {"half": 16, "float": 32, "double": 64}[str(element_of(value.type))]
    return k.b.bitcast(value, with_element(value.type, ir.IntType(width)))


def reduce(k: Kernel, value: ir.Value, combine: str) -> ir.Value:
    """All lanes of `value` combined pairwise in a fixed tree: halves, quarters, ... `combine` is a builder
    method (`fadd`, `add`, `fmul`, ...) or the name of a binary intrinsic (`maximum`, `smin`, ...)."""
    lanes = lanes_of(value.type)
    while lanes > 1:
        half = lanes // 2
        low = take(k, value, range(half))
        high = take(k, value, range(half, 2 * half))
        method = getattr(k.b, combine, None)
        value = method(low, high) if method is not None else binary_intrinsic(k, combine, low, high)
        lanes = half
    return value


def lane_sums(k: Kernel, values: Sequence[ir.Value]) -> ir.Value:
    """In lane i the sum of all lanes of `values[i]`; a scalar for one value.

    There are 1, 2, 4 ... values, at most as many as lanes. The sum of one value does not depend on the others.
    """
    parts = 1
    while len(values) > 1:
        values = [_halves_added(k, pair, parts) for pair in zip(values[::2], values[1::2], strict=True)]
        parts *= 2
    value = values[0]
    while lanes_of(value.type) > parts:
        value = _halves_added(k, (value,), parts)
    return value


def _halves_added(k: Kernel, values: tuple[ir.Value, ...], parts: int) -> ir.Value:
    """The sum of both halves of each of the `parts` equal parts of one or two `values`, one part after another."""
    lanes = lanes_of(values[0].type)
    half = lanes // parts // 2
    starts = [begin + part * 2 * half for begin in range(0, len(values) * lanes, lanes) for part in range(parts)]
    low, high = ([start + offset + i for start in starts for i in range(half)] for offset in (0, half))
    if len(values) == 1:
        return k.b.fadd(take(k, values[0], low), take(k, values[0], high))
    left, right = values
    return k.b.fadd(*(k.b.shuffle_vector(left, right, lane_numbers(tuple(each))) for each in (low, high)))


def interleave(k: Kernel, values: Sequence[ir.Value]) -> ir.Value:
    """The first lanes of all `values`, then their second lanes, ...; the number of values is a power of 2."""
    if len(values) == 1:
        return values[0]
    left, right = (interleave(k, values[first::2]) for first in range(2))
    lanes = lanes_of(left.type)
    return k.b.shuffle_vector(left, right, lane_numbers(tuple(lane + of for lane in range(lanes) for of in (0, lanes))))


def take(k: Kernel, value: ir.Value, lanes: Sequence[int] | range) -> ir.Value:
    """A vector of the named lanes of `value`; a scalar if only one is named."""
    if len(lanes) == 1:
        return k.b.extract_element(value, I32(lanes[0]))
    return k.b.shuffle_vector(value, undefined(value.type), lane_numbers(tuple(lanes)))


def joined(k: Kernel, parts: Sequence[ir.Value]) -> ir.Value:
    """The lanes of `parts`, 1, 2, 4 ... vectors of equally many lanes, one vector after another."""
    while len(parts) > 1:
        both = lane_numbers(tuple(range(2 * lanes_of(parts[0].type))))
        parts = [k.b.shuffle_vector(*pair, both) for pair in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]
