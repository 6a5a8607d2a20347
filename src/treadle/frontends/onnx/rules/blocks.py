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
from treadle.ops.block_matmul import unpacked
from treadle.ops.op import Array
from treadle.plan.kernels.block_matmul import BLOCK_MULTIPLE, WIDTHS
from treadle.records import dataclass

_ROUNDED = 4
"""The accuracy level that allows a left factor of 8 bits."""

_FP4 = (0.0, 0.0625 / 12, 8 / 12, 12 / 12, 4 / 12, 6 / 12, 2 / 12, 3 / 12)
_NF4 = (
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
    -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
    0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
)  # fmt: skip
_BNB4 = {
    0: np.array([*_FP4, *(-value for value in _FP4)], np.float32),
    1: np.array(_NF4, np.float32),
}
"""Attribute `quant_type` of MatMulBnb4 -> the values that 4 bits stand for, those of bitsandbytes."""


def matmul_n_bits(node: OnnxNode, b: Builder) -> Value:
    """MatMulNBits(a, w, scales, zeros, groups, bias) -> a times the weights as they are stored.

    With accuracy_level 4 the left factor is rounded to 8 bits block by block, as the operator allows. The weights are
    dequantized once if `groups` says which block each index of the depth belongs to, and if blocks are short.
    """
    if node.integer("weight_prepacked", 0):
        raise Unsupported("attribute 'weight_prepacked' must be 0: other layouts are those of CUDA")
    a, bias = node.input(0), node.optional(5)
    stored = _stored(node)
    if node.optional(4) is None and node.integer("block_size", 0) % BLOCK_MULTIPLE == 0:
        rounds = node.integer("accuracy_level", 0) == _ROUNDED
        product = stored.times(a, b, node.input(1), rounds=rounds)
    else:
        weights = b.constant(np.ascontiguousarray(_regrouped(node, stored).T))
        right = b.cast(weights, a.dtype)
        product = b.add("matmul", a, right, transpose_a=False, transpose_b=False)
    return product if bias is None else b.add("add", product, bias)


def matmul_bnb4(node: OnnxNode, b: Builder) -> Value:
    """MatMulBnb4(a, w, scales) -> a times the weights [N, K], transposed unless `transB` is 0.

    Their 4 bits number the values of `quant_type`. They are dequantized once.
    """
    rows, depth, block = (node.integer(name, 0) for name in ("N", "K", "block_size"))
    kind = node.integer("quant_type", -1)
    if min(rows, depth, block) < 1 or kind not in _BNB4:
        raise Fault(
            f"attributes N, K and block_size must be 1 or more, got {rows}, {depth} and {block}; 'quant_type' must be "
            f"0 or 1, got {kind}"
        )
    count = rows * depth
    packed = _constant(node, 1, -(-count // 2))
    numbers = np.stack([packed >> 4, packed & 15], axis=-1).reshape(-1)[:count]
    scales = _constant(node, 2, -(-count // block)).astype(np.float32)
    weights = (_BNB4[kind][numbers] * np.repeat(scales, block)[:count]).reshape(rows, depth)
    turned = node.flag("transB", default=True)
    right = b.constant(np.ascontiguousarray(weights.T if turned else weights))
    a = node.input(0)
    return b.add("matmul", a, b.cast(right, a.dtype), transpose_a=False, transpose_b=False)


@dataclass(frozen=True, slots=True)
class Stored:
    """A matrix whose rows are stored in blocks of numbers of `bits` bits: see `ops.block_matmul`."""

    weights: Array
    scales: Array
    zeros: Array | None
    bits: int
    block: int

    def times(self, a: Value, b: Builder, weights: Value | None, *, rounds: bool) -> Value:
        """`a` times the transposed matrix, in the dtype of `a`. If `weights` is given, it is a constant of the same
        bytes, which is read where it has the shape of the blocks."""
        shape = b.known.array(weights) if weights is not None else None
        held = weights if shape is not None and shape.shape == self.weights.shape else b.constant(self.weights)
        wide = b.cast(a, dtypes.f32)
        tables = [b.constant(self.scales), *([] if self.zeros is None else [b.constant(self.zeros)])]
        product = b.add("block_matmul", wide, held, *tables, bits=self.bits, block=self.block, rounds=rounds)
        return b.cast(product, a.dtype)


def _stored(node: OnnxNode) -> Stored:
    """The weights [N, K] as they are stored."""
    rows, depth, block = (node.integer(name, 0) for name in ("N", "K", "block_size"))
    bits = _bits(node)
    if min(rows, depth, block) < 1 or block * bits % 8:
        raise Fault(f"attributes N, K and block_size must be 1 or more, got {rows}, {depth} and {block}")
    blocks = -(-depth // block)
    size = block * bits // 8
    packed = _constant(node, 1, rows * blocks * size).reshape(rows, blocks, size)
    scales = _constant(node, 2, rows * blocks).reshape(rows, blocks).astype(np.float32)
    return Stored(packed, scales, _zeros(node, rows, blocks, bits), bits, block)


def _regrouped(node: OnnxNode, stored: Stored) -> Array:
    """The dequantized weights f32 [N, K]."""
    depth, blocks = node.integer("K", 0), stored.weights.shape[1]
    group = node.array(4)
    if group is None and node.optional(4) is not None:
        raise Unsupported("its input 'g_idx' must be a constant")
    at = np.arange(depth) // stored.block if group is None else group
    if at.shape != (depth,) or at.min(initial=0) < 0 or at.max(initial=0) >= blocks:
        raise Fault(f"its input 'g_idx' must have {depth} numbers below {blocks}")
    numbers = unpacked(stored.weights, stored.bits).reshape(len(stored.weights), -1)[:, :depth].astype(np.float32)
    zeros = np.float32(1 << (stored.bits - 1)) if stored.zeros is None else stored.zeros.astype(np.float32)[:, at]
    return np.asarray((numbers - zeros) * stored.scales[:, at])


def _zeros(node: OnnxNode, rows: int, blocks: int, bits: int) -> Array | None:
    """The zero point of each block [N, blocks]: stored like the weights, u8, or as numbers, f32; None if absent."""
    if node.optional(3) is None:
        return None
    if node.dtype(3) != dtypes.u8:
        return _constant(node, 3, rows * blocks).reshape(rows, blocks).astype(np.float32)
    packed = _constant(node, 3, rows * -(-blocks * bits // 8))
    return unpacked(packed.reshape(rows, -1), bits)[:, :blocks]


def _bits(node: OnnxNode) -> int:
    bits = node.integer("bits", 4)
    if bits not in WIDTHS:
        raise Unsupported(f"attribute 'bits' must be one of {', '.join(map(str, WIDTHS))}, got {bits}")
    return bits


def _constant(node: OnnxNode, index: int, count: int) -> Array:
    """The `count` elements of operand `index`."""
    found = node.array(index)
    if found is None:
        raise Unsupported(f"its input number {index} must be a constant")
    if found.size != count:
        raise Fault(f"its input number {index} must have {count} elements, got {found.size}")
    return found


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
    shape = b.add("shape", numbers, start=0, end=None)
    apart = b.add("concat", b.add("shape", numbers, start=0, end=-1), b.integers([blocks, block]), axis=0)
    cut = b.add("reshape", numbers, apart, allowzero=False)
    real = b.add("reshape", b.add("mul", b.add("sub", cut, start), b.cast(steps, dtypes.f32)), shape, allowzero=False)
    return b.cast(real, scales.dtype)


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
