"""matmul: NumPy's matrix product, with the transpositions and the epilogue that passes fuse into it.

Operands are permuted (`a_perm`, `b_perm`), then their last two axes swapped (`transpose_a`,
`transpose_b`; nothing to swap at rank 1), then multiplied; `out_perm` permutes the product, and the
epilogue comes last.
"""

from collections.abc import Sequence

import numpy as np

from treadle.errors import DtypeError, ShapeError
from treadle.graph.shape import StaticShape, broadcast, text
from treadle.ops.epilogue import apply_epilogue, infer_epilogue
from treadle.ops.op import Array, Attrs, Info
from treadle.ops.operands import (
    as_factor,
    as_sums,
    operand,
    present,
    product_dtype,
    rank_at_least,
    rounded_alike,
    sums_dtype,
)
from treadle.ops.transpose import checked_perm


def operand_shape(attrs: Attrs, side: str, shape: StaticShape) -> StaticShape:
    """The shape in which operand `side` ("a" or "b") is multiplied."""
    perm = attrs.get(f"{side}_perm")
    if perm is not None:
        shape = tuple(shape[axis] for axis in checked_perm(perm, len(shape)))
    if attrs.get(f"transpose_{side}", False) and len(shape) >= 2:
        shape = (*shape[:-2], shape[-1], shape[-2])
    return shape


def infer_matmul(attrs: Attrs, inputs: Sequence[Info | None], n_outputs: int) -> list[Info]:
    """attrs: transpose_a, transpose_b; optional a_perm, b_perm, out_perm, epilogue.

    A bf16 a and an f32 b give f32: b is rounded to bf16 before it is multiplied. Factors of 8 bits, u8 or i8 each, give
    i32: exact sums, modulo 2 ** 32.
    """
    left, right = operand(inputs, 0, "a"), operand(inputs, 1, "b")
    dtype = product_dtype(("a", left), ("b", right))
    if not (dtype.is_float or dtype.is_integer):
        raise DtypeError(f"matmul multiplies numbers, got {dtype}")
    a = operand_shape(attrs, "a", rank_at_least(left, 1, "a"))
    b = operand_shape(attrs, "b", rank_at_least(right, 1, "b"))
    inner = b[-2] if len(b) > 1 else b[0]
    if a[-1] != inner:
        raise ShapeError(
            f"inner sizes differ: a is {text(a)}, b is {text(b)}: {a[-1]} (last axis of a) must equal {inner} "
            f"({'axis -2' if len(b) > 1 else 'the axis'} of b)"
        )
    rows = a[-2:-1] if len(a) > 1 else ()
    columns = b[-1:] if len(b) > 1 else ()
    shape = (*broadcast(a[:-2], b[:-2]), *rows, *columns)
    if attrs.get("out_perm") is not None:
        shape = tuple(shape[axis] for axis in checked_perm(attrs["out_perm"], len(shape)))
    return infer_epilogue(attrs, dtype, shape, inputs, 2)


def evaluate_matmul(attrs: Attrs, arrays: Sequence[Array | None]) -> list[Array]:
    a, b = present(arrays, 0), present(arrays, 1)
    dtype = sums_dtype(b)
    b = rounded_alike(b, a)
    with np.errstate(all="ignore"):
        product = np.matmul(_multiplied(attrs, "a", a), _multiplied(attrs, "b", b))
        result = as_sums(np.asarray(product), dtype)
    if attrs.get("out_perm") is not None:
        result = result.transpose(attrs["out_perm"]).copy()
    return apply_epilogue(attrs, result, arrays, 2)


def _multiplied(attrs: Attrs, side: str, array: Array) -> Array:
    if attrs.get(f"{side}_perm") is not None:
        array = array.transpose(attrs[f"{side}_perm"])
    if attrs.get(f"transpose_{side}", False) and array.ndim >= 2:
        array = array.swapaxes(-1, -2)
    return as_factor(array)
