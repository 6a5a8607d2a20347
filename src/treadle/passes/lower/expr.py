"""The cost of an Expr, whether kernels can evaluate it, and which of its numbers become arguments."""

from __future__ import annotations

import math
import struct

from treadle import dtypes
from treadle.dtypes import DType
from treadle.graph.expr import Expr, Step
from treadle.plan.target import Target

_NATIVE = (
    dtypes.f64, dtypes.f32, dtypes.i64, dtypes.i32, dtypes.i16, dtypes.i8,
    dtypes.u64, dtypes.u32, dtypes.u16, dtypes.u8, dtypes.boolean,
)  # fmt: skip

_HALVES = (dtypes.bf16, dtypes.f16)
_ROUNDINGS = frozenset(pair for half in _HALVES for pair in ((dtypes.f32, half), (half, dtypes.f32)))
"""Casts of half precision that kernels do."""

_CHEAP = 1
_STEPS = {
    "div": 6, "reciprocal": 6, "sqrt": 7, "rsqrt": 12,
    "exp": 13, "log": 23, "sigmoid": 22, "tanh": 26, "sinh": 24, "cosh": 19, "softplus": 27, "erf": 29,
    "expm1": 19, "log1p": 31, "asinh": 96, "acosh": 96, "atanh": 82, "erfc": 120,
    "sin": 67, "cos": 67, "tan": 72, "asin": 48, "acos": 48, "atan": 48,
    "pow": 192, "mod": 53, "fmod": 48,
}  # fmt: skip
"""How many multiply-adds take as long as the op on a vector of f32, loads and stores not counted."""

_INDIFFERENT: dict[DType, tuple[frozenset[str], str]] = {
    dtypes.f32: (frozenset({"add", "sub", "mul", "div"}), "<fi"),
    dtypes.f64: (frozenset({"add", "sub", "mul", "div"}), "<dq"),
    dtypes.i32: (frozenset({"add", "sub"}), "<ii"),
    dtypes.i64: (frozenset({"add", "sub"}), "<qq"),
}
"""For each dtype the ops that are as fast with an argument as with a constant, and the formats of the number and its
bits."""

_MOST_GIVEN = 8
"""Vector registers that numbers from arguments may take."""

_SCALARISED = 192
"""The same for the ops of integers that have no vector instructions."""

_FALLIBLE = frozenset({"div", "mod", "fmod", "reciprocal"})


def is_native(expr: Expr) -> bool:
    """Whether kernels can evaluate `expr`: numbers of 8 to 64 bits and booleans, no strings.

    Half precision is not calculated with; it may be cast to and from f32.
    """
    for step in expr.steps:
        taken = tuple(expr.dtype(number) for number in step.args)
        if step.op == "cast" and (*taken, step.dtype) in _ROUNDINGS:
            continue
        if any(dtype not in _NATIVE for dtype in (*taken, step.dtype)):
            return False
    return all(dtype in _NATIVE or dtype in _HALVES for dtype in expr.operands)


def may_fail(expr: Expr) -> bool:
    """Whether evaluating `expr` may end a kernel with an error status: it divides integers."""
    return any(step.op in _FALLIBLE and step.dtype.is_integer for step in expr.steps)


def lanes_for(expr: Expr, target: Target) -> int:
    """Elements to evaluate at once: as many as fill a register with the narrowest number of at least 32 bits.

    Without such numbers, as many as fill one with the narrowest element.
    """
    sizes = [dtype.size for dtype in (*expr.operands, *(step.dtype for step in expr.steps))]
    wide = [size for size in sizes if size >= 4]
    return target.vector_bytes // min(wide or sizes or [4])


def element_ns(expr: Expr, target: Target) -> float:
    """Estimated ns to evaluate `expr` once, memory not counted."""
    return _work(expr) * target.machine.fma_ns * 4 / target.vector_bytes


def _work(expr: Expr) -> float:
    """How many multiply-adds of f32 take as long as `expr`, for as many elements."""
    return sum(_step_work(step.op, step.dtype) for step in expr.steps)


def _step_work(op: str, dtype: DType) -> float:
    if op == "const":
        return 0.0
    if op in ("div", "mod", "fmod", "pow") and dtype.is_integer:
        return _SCALARISED
    return _STEPS.get(op, _CHEAP) * max(dtype.size, 4) / 4


def unroll_for(expr: Expr) -> int:
    """How many vectors one turn of an elementwise loop does: more where the work on one is short."""
    work = _work(expr)
    return 4 if work < 7.5 else 2 if work < 29 else 1


def with_given(expr: Expr) -> tuple[Expr, tuple[int, ...]]:
    """`expr` with `given` steps in place of numbers that do not shape its code, and the bits of each for arguments of
    the call.

    Programs that differ in such numbers only share one kernel. 0 and powers of two stay in the code, which they
    simplify. All numbers of a program that has many stay, because each argument takes a register.
    """
    first = len(expr.operands)
    users: dict[int, list[Step]] = {}
    for step in expr.steps:
        for number in step.args:
            users.setdefault(number, []).append(step)
    taken = [
        place
        for place, step in enumerate(expr.steps)
        if first + place not in expr.results
        and _is_ordinary(step)
        and all(user.op in _INDIFFERENT[step.dtype][0] for user in users.get(first + place, ()))
    ]
    if not 0 < len(taken) <= _MOST_GIVEN:
        return expr, ()
    steps, given = list(expr.steps), []
    for place in taken:
        step = steps[place]
        given.append(_bits(step))
        steps[place] = Step("given", (), step.dtype, len(given) - 1)
    return Expr(expr.operands, tuple(steps), expr.results), tuple(given)


def _is_ordinary(step: Step) -> bool:
    if step.op != "const" or step.value is None or step.dtype not in _INDIFFERENT:
        return False
    return math.isfinite(step.value) and abs(math.frexp(step.value)[0]) not in (0.0, 0.5)


def _bits(step: Step) -> int:
    assert step.value is not None, "a const step has a value"
    form = _INDIFFERENT[step.dtype][1]
    exact = float(step.value) if step.dtype.is_float else int(step.value)
    return int(struct.unpack(f"<{form[2]}", struct.pack(f"<{form[1]}", exact))[0])
