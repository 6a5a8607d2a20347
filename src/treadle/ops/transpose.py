"""transpose: permutation of axes."""

from collections.abc import Sequence

from treadle.errors import ShapeError
from treadle.ops.op import Array, Attrs, Info
from treadle.ops.operands import dims, operand, present, result


def checked_perm(perm: Sequence[int], rank: int) -> tuple[int, ...]:
    """`perm` as a tuple. Raises ShapeError unless it is a permutation of 0..rank-1."""
    if sorted(perm) != list(range(rank)):
        raise ShapeError(f"perm {list(perm)} is no permutation of the {rank} axes 0 to {rank - 1}")
    return tuple(perm)


def infer_transpose(attrs: Attrs, inputs: Sequence[Info | None], n_outputs: int) -> list[Info]:
    """attrs: perm. Axis i of the result is axis perm[i] of x."""
    x = operand(inputs, 0, "x")
    shape = dims(x)
    return [result(x.dtype, [shape[axis] for axis in checked_perm(attrs["perm"], len(shape))])]


def evaluate_transpose(attrs: Attrs, arrays: Sequence[Array | None]) -> list[Array]:
    return [present(arrays, 0).transpose(attrs["perm"]).copy()]
