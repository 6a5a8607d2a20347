"""Epilogues: the scalar program that fusion puts behind an op, applied to each element of its result.

Operand 0 of the epilogue is the op's own result; the others are extra operands of the node, which
broadcast to the node's output shape (after any permutation of the result).
"""

from collections.abc import Sequence

from treadle.dtypes import DType
from treadle.errors import ShapeError
from treadle.graph.shape import StaticShape
from treadle.ops.elementwise import check_expr, evaluate_expr
from treadle.ops.op import Array, Attrs, Info
from treadle.ops.operands import dims, must_broadcast_to, operand, present, result


def infer_epilogue(
    attrs: Attrs, dtype: DType, shape: StaticShape, inputs: Sequence[Info | None], first: int
) -> list[Info]:
    """What an op that gives `dtype` and `shape` gives after its epilogue; epilogue operands are `inputs[first:]`."""
    epilogue = attrs.get("epilogue")
    extra = [operand(inputs, index, "epilogue operand") for index in range(first, len(inputs))]
    if epilogue is None:
        if extra:
            raise ShapeError(f"operands from number {first} on need an epilogue that reads them, but there is none")
        return [result(dtype, shape)]
    wanted = (dtype, *(info.dtype for info in extra))
    if epilogue.operands != wanted:
        raise ShapeError(
            f"the epilogue takes ({', '.join(map(str, epilogue.operands))}), got ({', '.join(map(str, wanted))})"
        )
    for number, info in enumerate(extra, start=first):
        must_broadcast_to(dims(info), shape, f"epilogue operand {number}")
    return [result(found, shape) for found in check_expr(epilogue)]


def apply_epilogue(attrs: Attrs, array: Array, arrays: Sequence[Array | None], first: int) -> list[Array]:
    """The op's result `array` after the node's epilogue, if it has one."""
    epilogue = attrs.get("epilogue")
    if epilogue is None:
        return [array]
    return evaluate_expr(epilogue, [array, *(present(arrays, index) for index in range(first, len(arrays)))])
