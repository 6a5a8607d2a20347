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

_CHEAP_NS = 0.02
_STEP_NS: dict[str, float] = {
    "div": 0.12, "reciprocal": 0.12, "sqrt": 0.15, "rsqrt": 0.25,
    "exp": 0.27, "log": 0.48, "sigmoid": 0.46, "tanh": 0.55, "sinh": 0.5, "cosh": 0.4, "softplus": 0.57, "erf": 0.6,
    "expm1": 0.4, "log1p": 0.65, "asinh": 2.0, "acosh": 2.0, "atanh": 1.7, "erfc": 2.5,
    "sin": 1.4, "cos": 1.4, "tan": 1.5, "asin": 1.0, "acos": 1.0, "atan": 1.0,
    "pow": 4.0, "mod": 1.1, "fmod": 1.0,
}  # fmt: skip
"""ns for one f32 on a 64-byte vector unit, loads and stores not counted."""

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

_SCALARISED_NS = 4.0
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
    return sum(_step_ns(step.op, step.dtype) for step in expr.steps) * 64 / target.vector_bytes


def _step_ns(op: str, dtype: DType) -> float:
    if op == "const":
        return 0.0
    if op in ("div", "mod", "fmod", "pow") and dtype.is_integer:
        return _SCALARISED_NS
    return _STEP_NS.get(op, _CHEAP_NS) * max(dtype.size, 4) / 4


def unroll_for(expr: Expr) -> int:
    """How many vectors one turn of an elementwise loop does: more where the work on one is short."""
    work = sum(_step_ns(step.op, step.dtype) for step in expr.steps)
    return 4 if work < 0.15 else 2 if work < 0.6 else 1


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
