"""Products with constant weights of 2 or 4 bits in the QDQ format, which are multiplied as they are stored.

The core nodes of their DequantizeLinear are spare: the importer drops those that nothing reads.
"""

from __future__ import annotations

import numpy as np

from treadle import dtypes
from treadle.frontends.onnx.build import Builder, LowBits
from treadle.frontends.onnx.node import OnnxNode
from treadle.frontends.onnx.rules.blocks import Stored
from treadle.graph.value import Value
from treadle.ops.block_matmul import repacked
from treadle.ops.op import Array
from treadle.plan.kernels.block_matmul import BLOCK_MULTIPLE

_ROUNDED_BLOCK = 32
"""The block in which a factor is rounded where weights have one scale a column."""
_ROUNDED_BLOCKS = (16, 256)
"""The smallest and the largest block of weights for which ONNX Runtime rounds."""


def remember(node: OnnxNode, result: Value, first: int, b: Builder) -> None:
    """Records the constant operands of a DequantizeLinear of 2 or 4 bits, and that its core nodes, number `first` and
    those after it, are spare."""
    x, scale, zero = node.array(0), node.array(1), node.array(2)
    bits = b.few_bits.get(node.input(0))
    b.spare.update(b.graph.nodes[first:])
    if bits is None or x is None or x.ndim != 2 or scale is None or (zero is None and node.optional(2) is not None):
        return
    axis = node.axis(node.integer("axis", 1)) if scale.size > 1 else 0
    begin = np.zeros(scale.shape, x.dtype) if zero is None else zero
    if begin.shape == scale.shape:
        b.low_bits[result] = LowBits(x, scale, begin, axis, node.integer("block_size", 0), bits)


def matmul_of_low_bits(left: Value, right: Value, b: Builder, *, transposed: bool) -> Value | None:
    """The product with a matrix that DequantizeLinear made of 2 or 4 bits, [columns, depth] if `transposed`.

    None if `right` is no such matrix, or its blocks do not lie along the depth.
    """
    held = b.low_bits.get(right)
    dims = b.known.dims(left)
    if held is None or left.dtype != dtypes.f32 or not dims:
        return None
    numbers, scale, zero, axis, each = held.numbers, held.scale, held.zero, held.axis, held.block
    if not transposed:
        numbers, axis = numbers.T, 1 - axis
        scale, zero = (table.T for table in (scale, zero))
    columns, depth = numbers.shape
    if scale.ndim == 2:
        if axis != 1 or each % BLOCK_MULTIPLE or scale.shape != (columns, -(-depth // each)):
            return None
    elif scale.size == 1 or (axis == 0 and scale.shape == (columns,)):
        each = _ROUNDED_BLOCK if b.round_low_bits else -(-max(depth, 1) // BLOCK_MULTIPLE) * BLOCK_MULTIPLE
        blocks = -(-max(depth, 1) // each)
        scale, zero = (np.broadcast_to(table.reshape(-1, 1), (columns, blocks)) for table in (scale, zero))
    else:
        return None
    if 0 in numbers.shape:
        return None
    return _stored(numbers, scale, zero, each, held.bits).times(
        left, b, None, rounds=b.round_low_bits and _is_rounded(each)
    )


def _is_rounded(block: int) -> bool:
    """Whether the other factor is rounded: ONNX Runtime does so for blocks whose size is a power of 2."""
    smallest, largest = _ROUNDED_BLOCKS
    return smallest <= block <= largest and not block & (block - 1)


def _stored(numbers: Array, scale: Array, zero: Array, block: int, bits: int) -> Stored:
    """The matrix of `numbers` [columns, depth], packed in blocks along the depth. Signed numbers become unsigned."""
    columns, depth = numbers.shape
    blocks = scale.shape[1]
    lowest = 1 << (bits - 1) if numbers.dtype == np.int8 else 0
    padded = np.zeros((columns, blocks * block), np.uint8)
    padded[:, :depth] = numbers + numbers.dtype.type(lowest)
    zeros = (zero.astype(np.int16) + lowest).astype(np.uint8)
    packed = repacked(padded, bits).reshape(columns, blocks, -1)
    return Stored(packed, scale.astype(np.float32), None if (zeros == 1 << (bits - 1)).all() else zeros, bits, block)
