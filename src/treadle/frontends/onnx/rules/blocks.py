"""Operators of ONNX Runtime (com.microsoft) whose weights are stored in 2, 4 or 8 bits, with a scale for each block.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

import numpy as np

from treadle import dtypes
from treadle.frontends.faults import Fault, Unsupported
from treadle.frontends.onnx.build import Builder
from treadle.frontends.onnx.node import OnnxNode
from treadle.graph.value import Value
from treadle.ops.op import Array

_WIDTHS = (2, 4, 8)


def matmul_n_bits(node: OnnxNode, b: Builder) -> Value:
    """MatMulNBits(a, w, scales, zeros, groups, bias) -> a times the weights, which are dequantized once."""
    if node.integer("weight_prepacked", 0):
        raise Unsupported("attribute 'weight_prepacked' must be 0: other layouts are those of CUDA")
    a, bias = node.input(0), node.optional(5)
    weights = b.constant(np.ascontiguousarray(_weights(node).T))
    right = weights if a.dtype == dtypes.f32 else b.add("cast", weights, to=a.dtype)
    product = b.add("matmul", a, right, transpose_a=False, transpose_b=False)
    return product if bias is None else b.add("add", product, bias)


def _weights(node: OnnxNode) -> Array:
    """The weights f32 [N, K]."""
    rows, depth, block = (node.integer(name, 0) for name in ("N", "K", "block_size"))
    bits = _bits(node)
    if min(rows, depth, block) < 1 or block * bits % 8:
        raise Fault(f"attributes N, K and block_size must be 1 or more, got {rows}, {depth} and {block}")
    blocks = -(-depth // block)
    packed = _constant(node, 1, rows * blocks * (block * bits // 8))
    whole = unpacked(packed.reshape(rows, -1), bits)[:, :depth].astype(np.float32)
    scales = _constant(node, 2, rows * blocks).reshape(rows, blocks).astype(np.float32)
    zeros = _zeros(node, rows, blocks, bits)
    group = node.array(4)
    if group is None and node.optional(4) is not None:
        raise Unsupported("its input 'g_idx' must be a constant")
    at = np.arange(depth) // block if group is None else group
    if at.shape != (depth,) or at.min(initial=0) < 0 or at.max(initial=0) >= blocks:
        raise Fault(f"its input 'g_idx' must have {depth} numbers below {blocks}")
    return np.asarray((whole - zeros[:, at]) * scales[:, at])


def _zeros(node: OnnxNode, rows: int, blocks: int, bits: int) -> Array:
    """The zero point of each block f32 [N, blocks]: stored like the weights, or as numbers; the middle if absent."""
    if node.optional(3) is None:
        return np.full((rows, blocks), 1 << (bits - 1), np.float32)
    if node.dtype(3) != dtypes.u8:
        return _constant(node, 3, rows * blocks).reshape(rows, blocks).astype(np.float32)
    packed = _constant(node, 3, rows * -(-blocks * bits // 8))
    return unpacked(packed.reshape(rows, -1), bits)[:, :blocks].astype(np.float32)


def _bits(node: OnnxNode) -> int:
    bits = node.integer("bits", 4)
    if bits not in _WIDTHS:
        raise Unsupported(f"attribute 'bits' must be one of {', '.join(map(str, _WIDTHS))}, got {bits}")
    return bits


def _constant(node: OnnxNode, index: int, count: int) -> Array:
    """The `count` elements of operand `index`."""
    found = node.array(index)
    if found is None:
        raise Unsupported(f"its input number {index} must be a constant")
    if found.size != count:
        raise Fault(f"its input number {index} must have {count} elements, got {found.size}")
    return found


def unpacked(packed: Array, bits: int) -> Array:
    """Numbers of `bits` bits, the lowest of each byte of the last axis first."""
    parts = [(packed >> shift) & ((1 << bits) - 1) for shift in range(0, 8, bits)]
    return np.stack(parts, axis=-1).reshape(*packed.shape[:-1], -1)


def gather_blocks(node: OnnxNode, b: Builder) -> Value:
    """GatherBlockQuantized(table, indices, scales, zeros) -> rows gathered as they are stored, then dequantized.

    An index out of range is an error, as of Gather.
    """
    table, indices, scales, zeros = node.input(0), node.input(1), node.input(2), node.optional(3)
    rank, bits, block = node.rank(), _bits(node), node.integer("block_size", 128)
    axes = rank and [axis % rank for axis in (node.integer("gather_axis", 0), node.integer("quantize_axis", 1))]
    if table.dtype != dtypes.u8 or rank is None or axes != [0, rank - 1] or block < 1:
        raise Unsupported("its table must be uint8, gathered along the first axis and quantized along the last")
    numbers = _spread(b.add("gather", table, indices, axis=0), bits, b)
    dims = node.dims(2)
    blocks = dims[-1] if dims else None
    if blocks is None:
        raise Unsupported("the shape of its scales must be known")
    if zeros is None:
        start = b.scalar(1 << (bits - 1), dtypes.f32)
    else:
        kept = [b.integers([number]) for number in (0, blocks, -1)]
        stored = b.add("slice", _spread(b.add("gather", zeros, indices, axis=0), bits, b), *kept)
        start = b.add("unsqueeze", stored, b.integers([-1]))
    steps = b.add("unsqueeze", b.add("gather", scales, indices, axis=0), b.integers([-1]))
    wide = steps if scales.dtype == dtypes.f32 else b.add("cast", steps, to=dtypes.f32)
    shape = b.add("shape", numbers, start=0, end=None)
    apart = b.add("concat", b.add("shape", numbers, start=0, end=-1), b.integers([blocks, block]), axis=0)
    cut = b.add("reshape", numbers, apart, allowzero=False)
    real = b.add("reshape", b.add("mul", b.add("sub", cut, start), wide), shape, allowzero=False)
    return real if scales.dtype == dtypes.f32 else b.add("cast", real, to=scales.dtype)


def _spread(packed: Value, bits: int, b: Builder) -> Value:
    """Numbers of `bits` bits, the lowest of each byte of the last axis first, as f32."""
    if bits == 8:
        return b.add("cast", packed, to=dtypes.f32)
    wide = b.add("cast", packed, to=dtypes.i32)
    mask = b.scalar((1 << bits) - 1, dtypes.i32)
    parts = [
        b.add("bitwise_and", b.add("shift_right", wide, b.scalar(shift, dtypes.i32)), mask)
        for shift in range(0, 8, bits)
    ]
    stacked = b.add("concat", *(b.add("unsqueeze", part, b.integers([-1])) for part in parts), axis=-1)
    outer = b.add("shape", packed, start=0, end=-1)
    flat = b.add("reshape", stacked, b.add("concat", outer, b.integers([-1]), axis=0), allowzero=False)
    return b.add("cast", flat, to=dtypes.f32)
