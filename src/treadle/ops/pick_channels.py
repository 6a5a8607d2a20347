"""pick_channels: a tensor assembled from channels of others, as channel shuffles, slices and concatenations do."""

from collections.abc import Sequence

import numpy as np

from treadle.errors import ShapeError
from treadle.graph.shape import text
from treadle.ops.op import Array, Attrs, Info
from treadle.ops.operands import alike, operand, present, rank_at_least, result


def infer_pick_channels(attrs: Attrs, inputs: Sequence[Info | None], n_outputs: int) -> list[Info]:
    """attrs: picks, (operand, channel) for each channel of the result. Operands [N, C, *S] agree in all but C."""
    dtype, shapes = alike(inputs)
    images, _, *places = rank_at_least(operand(inputs, 0, "operand"), 2, "operand 0")
    for index, shape in enumerate(shapes):
        if len(shape) != len(places) + 2 or (shape[0], *shape[2:]) != (images, *places):
            raise ShapeError(f"operand {index} {text(shape)} does not fit operand 0 {text(shapes[0])} outside axis 1")
    for index, channel in attrs["picks"]:
        if not (0 <= index < len(shapes) and 0 <= channel < shapes[index][1]):
            raise ShapeError(f"there is no channel {channel} of operand {index} to pick")
    return [result(dtype, (images, len(attrs["picks"]), *places))]


def evaluate_pick_channels(attrs: Attrs, arrays: Sequence[Array | None]) -> list[Array]:
    return [np.stack([present(arrays, index)[:, channel] for index, channel in attrs["picks"]], axis=1)]
