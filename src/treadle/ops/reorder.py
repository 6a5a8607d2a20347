"""reorder: the same tensor in another physical layout; logically nothing happens."""

from collections.abc import Sequence

from treadle.ops.op import Attrs, Info
from treadle.ops.operands import dims, operand, result


def infer_reorder(attrs: Attrs, inputs: Sequence[Info | None], n_outputs: int) -> list[Info]:
    """x of any shape, in another layout: the logical shape stays."""
    x = operand(inputs, 0, "x")
    return [result(x.dtype, dims(x))]
