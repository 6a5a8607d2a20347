"""Strides of operands that broadcast, over the output's dimensions, merged into as few dimensions as possible."""

from __future__ import annotations

import numpy as np

from treadle.graph.dim import ceil_div, equals
from treadle.graph.shape import StaticShape, strides_of
from treadle.graph.value import Value
from treadle.passes.lower.base import LowerContext
from treadle.records import dataclass


@dataclass(frozen=True, slots=True)
class Access:
    """Loops over `sizes`, outermost first; `strides[operand][axis]` in elements, 0 where the operand repeats."""

    sizes: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]


def collapse(sizes: tuple[int, ...], strides: tuple[tuple[int, ...], ...]) -> Access:
    """The same loops without dimensions of size 1, and with neighbours merged wherever the strides of every operand
    allow it."""
    kept: list[tuple[int, list[int]]] = []
    for axis, size in enumerate(sizes):
        if equals(size, 1):
            continue
        steps = [stride[axis] for stride in strides]
        if kept and all(equals(outer, inner * size) for outer, inner in zip(kept[-1][1], steps, strict=True)):
            kept[-1] = (kept[-1][0] * size, steps)
        else:
            kept.append((size, steps))
    kept = kept or [(1, [0] * len(strides))]
    return Access(
        tuple(size for size, _ in kept),
        tuple(tuple(steps[number] for _, steps in kept) for number in range(len(strides))),
    )


def access_operands(result: Value, operands: list[Value], ctx: LowerContext) -> tuple[list[Value], Access] | None:
    """The operands that the kernel reads, and the loops over `result`'s memory (strides[0] are those of `result`).

    Constants with an element for each channel of a blocked result are padded to whole blocks. None if the layout of an
    operand does not fit that of the result.
    """
    shape = result.static_shape
    if result.layout is None:
        if any(operand.layout is not None for operand in operands):
            return None
        rows = [_plain_strides(operand.static_shape, shape) for operand in operands]
        return operands, collapse(shape, (strides_of(shape), *rows))
    physical = result.layout.physical(shape)
    read, rows = [], []
    for operand in operands:
        access = _access_blocked(operand, result, ctx)
        if access is None:
            return None
        read.append(access[0])
        rows.append(access[1])
    return read, collapse(physical, (strides_of(physical), *rows))


def _plain_strides(shape: StaticShape, target: StaticShape) -> tuple[int, ...]:
    padded = (1,) * (len(target) - len(shape)) + shape
    return tuple(
        0 if _repeats(size, of) else step for size, of, step in zip(padded, target, strides_of(padded), strict=True)
    )


def _repeats(size: int, target: int) -> bool:
    """Whether one element of an operand stands for `target` elements; of one element it is not asked."""
    return not equals(size, target) and size == 1


def _access_blocked(operand: Value, result: Value, ctx: LowerContext) -> tuple[Value, tuple[int, ...]] | None:
    """(operand, strides over [N, C / block, *spatial, block])"""
    layout, shape = result.layout, result.static_shape
    assert layout is not None
    block = layout.block
    own = (1,) * (len(shape) - len(operand.static_shape)) + operand.static_shape
    if operand.layout is not None:
        if operand.layout != layout or len(operand.static_shape) != len(shape) or own[1] != shape[1]:
            return None
        physical = layout.physical(own)
        return operand, _plain_strides(physical, layout.physical(shape))
    steps = _plain_strides(own, shape)
    if own[1] == 1:
        return operand, (*steps, 0)
    if any(size != 1 for size in own[2:]):
        return None
    channels = own[1]
    if channels % block:
        if operand.data is None:
            return None
        operand = _padded(operand, own, block, ctx)
        channels = ceil_div(channels, block) * block
    return operand, (0 if _repeats(own[0], shape[0]) else channels, block, *steps[2:], 1)


def _padded(operand: Value, shape: StaticShape, block: int, ctx: LowerContext) -> Value:
    how = f"channels padded to {block}"
    missing = [(0, 0), (0, -shape[1] % block), *[(0, 0)] * (len(shape) - 2)]
    return ctx.packed(operand, how, "padded", lambda data: np.pad(data.reshape(shape), missing))
