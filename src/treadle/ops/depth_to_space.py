"""depth_to_space and space_to_depth: channels exchanged for blocks of pixels."""

from collections.abc import Sequence

import numpy as np

from treadle.errors import ShapeError
from treadle.graph.shape import StaticShape, text
from treadle.ops.op import Array, Attrs, Info
from treadle.ops.operands import dims, operand, present, result


def _image(attrs: Attrs, inputs: Sequence[Info | None]) -> tuple[Info, StaticShape, int]:
    x = operand(inputs, 0, "x")
    shape, block = dims(x), attrs["block"]
    if len(shape) != 4:
        raise ShapeError(f"x must be [N, C, H, W], got {text(shape)}")
    if block < 1:
        raise ShapeError(f"block must be 1 or more, got {block}")
    return x, shape, block


def infer_depth_to_space(attrs: Attrs, inputs: Sequence[Info | None], n_outputs: int) -> list[Info]:
    """[N, C, H, W] -> [N, C / block**2, H * block, W * block]. attrs: block, mode ("DCR" or "CRD")."""
    x, (batch, channels, height, width), block = _image(attrs, inputs)
    if attrs["mode"] not in ("DCR", "CRD"):
        raise ShapeError(f"mode must be DCR or CRD, got {attrs['mode']!r}")
    if channels % (block * block):
        raise ShapeError(f"x has {channels} channels, which {block} * {block} does not divide")
    return [result(x.dtype, (batch, channels // (block * block), height * block, width * block))]


def evaluate_depth_to_space(attrs: Attrs, arrays: Sequence[Array | None]) -> list[Array]:
    x, block = present(arrays, 0), attrs["block"]
    batch, channels, height, width = x.shape
    out = channels // (block * block)
    if attrs["mode"] == "DCR":
        moved = x.reshape(batch, block, block, out, height, width).transpose(0, 3, 4, 1, 5, 2)
    else:
        moved = x.reshape(batch, out, block, block, height, width).transpose(0, 1, 4, 2, 5, 3)
    return [np.ascontiguousarray(moved.reshape(batch, out, height * block, width * block))]


def infer_space_to_depth(attrs: Attrs, inputs: Sequence[Info | None], n_outputs: int) -> list[Info]:
    """[N, C, H, W] -> [N, C * block**2, H / block, W / block]. attrs: block."""
    x, (batch, channels, height, width), block = _image(attrs, inputs)
    if height % block or width % block:
        raise ShapeError(f"x is {height} x {width}, which blocks of {block} do not divide")
    return [result(x.dtype, (batch, channels * block * block, height // block, width // block))]


def evaluate_space_to_depth(attrs: Attrs, arrays: Sequence[Array | None]) -> list[Array]:
    x, block = present(arrays, 0), attrs["block"]
    batch, channels, height, width = x.shape
    cut = x.reshape(batch, channels, height // block, block, width // block, block).transpose(0, 3, 5, 1, 2, 4)
    return [np.ascontiguousarray(cut.reshape(batch, channels * block * block, height // block, width // block))]
