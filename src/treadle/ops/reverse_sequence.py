"""reverse_sequence: the first elements of each sequence of a batch in reverse order, the others unchanged."""

from collections.abc import Sequence

import numpy as np

from treadle.errors import KernelError, ShapeError
from treadle.graph.shape import text
from treadle.ops.op import Array, Attrs, Info
from treadle.ops.operands import dims, need_integer, operand, present, rank_at_least, result


def infer_reverse_sequence(attrs: Attrs, inputs: Sequence[Info | None], n_outputs: int) -> list[Info]:
    """x [time, batch, ...] or [batch, time, ...], lengths [batch], integers in [0, time].

    attrs: time_axis, batch_axis: 0 and 1, in either order.
    """
    x, lengths = operand(inputs, 0, "x"), operand(inputs, 1, "lengths")
    shape = rank_at_least(x, 2, "x")
    axes = attrs["time_axis"], attrs["batch_axis"]
    if sorted(axes) != [0, 1]:
        raise ShapeError(f"time_axis and batch_axis must be 0 and 1, in either order, got {axes[0]} and {axes[1]}")
    need_integer(lengths, "lengths")
    batch = shape[attrs["batch_axis"]]
    if dims(lengths) != (batch,):
        raise ShapeError(f"lengths must be [{batch}], one number a sequence, got {text(dims(lengths))}")
    return [result(x.dtype, shape)]


def evaluate_reverse_sequence(attrs: Attrs, arrays: Sequence[Array | None]) -> list[Array]:
    """Raises KernelError for a length outside [0, time]."""
    x, lengths = present(arrays, 0), present(arrays, 1).astype(np.int64)
    sequences = np.moveaxis(x, (attrs["batch_axis"], attrs["time_axis"]), (0, 1))
    if ((lengths < 0) | (lengths > sequences.shape[1])).any():
        raise KernelError(f"lengths must be in [0, {sequences.shape[1]}], got {lengths.tolist()[:8]}")
    reversed_ = sequences.copy()
    for sequence, length, target in zip(sequences, lengths, reversed_, strict=True):
        target[:length] = sequence[:length][::-1]
    return [np.ascontiguousarray(np.moveaxis(reversed_, (0, 1), (attrs["batch_axis"], attrs["time_axis"])))]
