"""Evaluating an Expr on values in registers: the body of elementwise kernels and of fused epilogues."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from treadle.codegen.emit.convert import convert
from treadle.codegen.emit.kernel import Kernel
from treadle.codegen.emit.memory import bool_to_byte, load_bool, load_masked, store, store_masked
from treadle.codegen.emit.memory import load as load_plain
from treadle.codegen.emit.scalar_ops import SCALAR_OPS, Operation
from treadle.codegen.emit.types import I1, lanes_of, scalar
from treadle.codegen.emit.vectors import constant, splat, zeros
from treadle.dtypes import DType, boolean
from treadle.graph.expr import Expr, Step


def emit_expr(
    k: Kernel,
    expr: Expr,
    operands: Sequence[ir.Value],
    active: ir.Value | None = None,
    lanes: int | None = None,
    given: Sequence[ir.Value] = (),
) -> list[ir.Value]:
    """The results of `expr` for `operands`: all scalars, or all vectors of equally many lanes; booleans are i1.

    `active` masks the lanes that count: the others may hold anything without causing an error status.
    `lanes` is needed only if there are no operands; `given` are the values of `given` steps (`given_values`).
    """
    width = lanes_of(operands[0].type) if lanes is None else lanes
    values = list(operands)
    for step in expr.steps:
        if step.op == "given":
            assert step.value is not None, "a given step has a number"
            values.append(given[int(step.value)])
        else:
            values.append(_emit_step(k, expr, step, values, width, active))
    return [values[number] for number in expr.results]


def given_values(k: Kernel, expr: Expr, given: Sequence[ir.Value], lanes: int) -> list[ir.Value]:
    """The numbers of the `given` steps of `expr`, each in every lane; arguments `given` hold their bits."""
    values: list[ir.Value] = []
    for step, bits in zip((step for step in expr.steps if step.op == "given"), given, strict=True):
        narrow = k.b.trunc(bits, ir.IntType(8 * step.dtype.size)) if step.dtype.size < 8 else bits
        values.append(splat(k, k.b.bitcast(narrow, scalar(step.dtype)) if step.dtype.is_float else narrow, lanes))
    return values


def _emit_step(
    k: Kernel, expr: Expr, step: Step, values: list[ir.Value], lanes: int, active: ir.Value | None
) -> ir.Value:
    if step.op == "const":
        assert step.value is not None, "a const step has a value"
        return _constant(step.dtype, step.value, lanes)
    arguments = [values[number] for number in step.args]
    dtypes = [expr.dtype(number) for number in step.args]
    if step.op == "cast":
        return convert(k, arguments[0], dtypes[0], step.dtype)
    if step.op == "where":
        arguments[0] = convert(k, arguments[0], dtypes[0], boolean)
        common = step.dtype
    else:
        common = dtypes[0]
    first = 1 if step.op == "where" else 0
    for number in range(first, len(arguments)):
        arguments[number] = convert(k, arguments[number], dtypes[number], common)
    return SCALAR_OPS[step.op](k, Operation(arguments, common, active))


def _constant(dtype: DType, value: float, lanes: int) -> ir.Constant:
    if dtype != boolean:
        return constant(dtype, value, lanes)
    number = int(bool(value))
    return I1(number) if lanes == 1 else ir.Constant(ir.VectorType(I1, lanes), [number] * lanes)


def load_value(
    k: Kernel, base: ir.Value, index: ir.Value | int, dtype: DType, lanes: int = 1, mask: ir.Value | None = None
) -> ir.Value:
    """base[index : index + lanes] as emit_expr takes it (booleans as i1); unset lanes of `mask` are 0, not touched."""
    if mask is None or lanes == 1:
        return load_bool(k, base, index, lanes) if dtype == boolean else load_plain(k, base, index, dtype, lanes)
    zero = zeros(dtype, lanes)
    raw = load_masked(k, base, index, dtype, mask, zero)
    return k.b.icmp_unsigned("!=", raw, zero) if dtype == boolean else raw


def store_value(
    k: Kernel, value: ir.Value, base: ir.Value, index: ir.Value | int, dtype: DType, mask: ir.Value | None = None
) -> None:
    """base[index : index + lanes of value] = value (booleans as bytes) where `mask` is set."""
    raw = bool_to_byte(k, value) if dtype == boolean else value
    if mask is None or lanes_of(value.type) == 1:
        store(k, raw, base, index, dtype)
    else:
        store_masked(k, raw, base, index, dtype, mask)
