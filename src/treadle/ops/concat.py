"""concat: tensors joined along an axis."""

from collections.abc import Sequence

import numpy as np

from treadle.errors import ShapeError
from treadle.graph.shape import normalize_axis, text
from treadle.ops.op import Array, Attrs, Info
from treadle.ops.operands import alike, present, result


def infer_concat(attrs: Attrs, inputs: Sequence[Info | None], n_outputs: int) -> list[Info]:
    """attrs: axis. Operands agree in dtype and in every dimension but that of `axis`."""
    dtype, shapes = alike(inputs)
    first = shapes[0]
    if not first:
        raise ShapeError("scalars cannot be concatenated; wanted rank 1 or more")
    axis = normalize_axis(attrs["axis"], len(first))
    for index, shape in enumerate(shapes):
        if len(shape) != len(first) or any(
            a != b for i, (a, b) in enumerate(zip(shape, first, strict=True)) if i != axis
        ):
            raise ShapeError(f"operand {index} {text(shape)} does not fit operand 0 {text(first)} outside axis {axis}")
    return [result(dtype, (*first[:axis], sum(shape[axis] for shape in shapes), *first[axis + 1 :]))]


def evaluate_concat(attrs: Attrs, arrays: Sequence[Array | None]) -> list[Array]:
    return [np.concatenate([present(arrays, index) for index in range(len(arrays))], axis=attrs["axis"])]
