"""What an Expr costs, and whether kernels can evaluate it."""

from __future__ import annotations

from weft import dtypes
from weft.dtypes import DType
from weft.graph.expr import Expr
from weft.plan.target import Target

_NATIVE = (
    dtypes.f64, dtypes.f32, dtypes.i64, dtypes.i32, dtypes.i16, dtypes.i8,
    dtypes.u64, dtypes.u32, dtypes.u16, dtypes.u8, dtypes.boolean,
)  # fmt: skip

_ROUNDINGS = ((dtypes.f32, dtypes.bf16), (dtypes.bf16, dtypes.f32))

_CHEAP_NS = 0.02
_STEP_NS: dict[str, float] = {
    "div": 0.12, "reciprocal": 0.12, "sqrt": 0.15, "rsqrt": 0.25,
    "exp": 0.27, "log": 0.48, "sigmoid": 0.46, "tanh": 0.55, "sinh": 0.5, "cosh": 0.4, "softplus": 0.57, "erf": 0.6,
    "sin": 1.4, "cos": 1.4, "tan": 1.5, "asin": 1.0, "acos": 1.0, "atan": 1.0,
    "pow": 4.0, "mod": 1.1, "fmod": 1.0,
}  # fmt: skip
"""ns for one f32 on a 64-byte vector unit, loads and stores not counted."""

_SCALARISED_NS = 4.0
_FALLIBLE = frozenset({"div", "mod", "fmod", "reciprocal"})


def is_native(expr: Expr) -> bool:
    """Whether kernels can evaluate `expr`: numbers of 8 to 64 bits and booleans, no strings.

    Half precision is not calculated with; bf16 may be cast to and from f32.
    """
    for step in expr.steps:
        taken = tuple(expr.dtype(number) for number in step.args)
        if step.op == "cast" and (*taken, step.dtype) in _ROUNDINGS:
            continue
        if any(dtype not in _NATIVE for dtype in (*taken, step.dtype)):
            return False
    return all(dtype in _NATIVE or dtype == dtypes.bf16 for dtype in expr.operands)


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
