"""block_matmul: a product with a matrix of numbers of 2, 4 or 8 bits, whose rows have a scale for each block."""

from collections.abc import Sequence

import numpy as np

from treadle.dtypes import f32, u8
from treadle.errors import DtypeError, ShapeError
from treadle.graph.shape import text
from treadle.ops.epilogue import apply_epilogue, infer_epilogue
from treadle.ops.op import Array, Attrs, Info
from treadle.ops.operands import absent_or, dims, operand, optional, present, rank_at_least
from treadle.plan.kernels.block_matmul import BLOCK_MULTIPLE, LARGEST, WIDTHS

OWN_INPUTS = 4
"""Operands before those of the epilogue."""


def infer_block_matmul(attrs: Attrs, inputs: Sequence[Info | None], n_outputs: int) -> list[Info]:
    """a f32[.., depth]; constants weights u8[columns, blocks, block * bits / 8], lowest bits of a byte first, scales
    f32[columns, blocks], and zeros u8 or f32[columns, blocks], or absent for 2 ** (bits - 1); then operands of the
    epilogue. The result f32[.., columns] is a times the transpose of (weights - zeros) scales.

    attrs: bits; block (a multiple of 16), numbers that share a scale; rounds, whether a is rounded too, to numbers of 8
    bits with one scale for each row and block; optional epilogue. The last block may be longer than what is left of the
    depth.
    """
    a, weights, scales = (operand(inputs, index, name) for index, name in enumerate(("a", "weights", "scales")))
    zeros = optional(inputs, 3)
    shape, bits, block = rank_at_least(a, 1, "a"), attrs["bits"], attrs["block"]
    if bits not in WIDTHS or block < 1 or block % BLOCK_MULTIPLE:
        raise ShapeError(
            f"bits must be one of {WIDTHS} and block a multiple of {BLOCK_MULTIPLE}, got {bits} and {block}"
        )
    if (a.dtype, weights.dtype, scales.dtype) != (f32, u8, f32) or (zeros is not None and zeros.dtype not in (u8, f32)):
        raise DtypeError("a and scales must be f32, weights u8, zeros u8 or f32")
    if any(info.value is None for info in (weights, scales, zeros) if info is not None):
        raise ShapeError("weights, scales and zeros must be constants")
    stored = dims(weights)
    blocks = -(-shape[-1] // block)
    wanted = (*stored[:1], blocks, block * bits // 8)
    if len(stored) != 3 or stored != wanted:
        want = f"[columns, {wanted[-2]}, {wanted[-1]}]"
        raise ShapeError(f"weights must be {want} for a {text(shape)}, got {text(stored)}")
    for name, info in (("scales", scales), ("zeros", zeros)):
        if info is not None and dims(info) != wanted[:2]:
            raise ShapeError(f"{name} must be {text(wanted[:2])}, got {text(dims(info))}")
    return infer_epilogue(attrs, f32, (*shape[:-1], stored[0]), inputs, OWN_INPUTS)


def evaluate_block_matmul(attrs: Attrs, arrays: Sequence[Array | None]) -> list[Array]:
    a, weights, scales, zeros = present(arrays, 0), present(arrays, 1), present(arrays, 2), absent_or(arrays, 3)
    real = dequantized(weights, scales, zeros, attrs["bits"])[:, : a.shape[-1]]
    left = _rounded(a, attrs["block"]) if attrs["rounds"] else a
    with np.errstate(all="ignore"):
        result = np.asarray(np.matmul(left, real.T, dtype=np.float32))
    return apply_epilogue(attrs, result, arrays, OWN_INPUTS)


def dequantized(weights: Array, scales: Array, zeros: Array | None, bits: int) -> Array:
    """The weights f32[columns, blocks * block] that the operands stand for."""
    numbers = unpacked(weights, bits).astype(np.float32)
    begin = np.float32(1 << (bits - 1)) if zeros is None else zeros.astype(np.float32)[..., None]
    return np.asarray((numbers - begin) * scales[..., None]).reshape(len(weights), -1)


def unpacked(packed: Array, bits: int) -> Array:
    """Numbers of `bits` bits, the lowest of each byte of the last axis first."""
    parts = [(packed >> shift) & ((1 << bits) - 1) for shift in range(0, 8, bits)]
    return np.stack(parts, axis=-1).reshape(*packed.shape[:-1], -1)


def repacked(numbers: Array, bits: int) -> Array:
    """The inverse of `unpacked`: u8 numbers below 2 ** bits, whose last axis fills whole bytes."""
    parts = numbers.reshape(*numbers.shape[:-1], -1, 8 // bits)
    packed = np.zeros(parts.shape[:-1], np.uint8)
    for place in range(8 // bits):
        packed |= parts[..., place] << np.uint8(place * bits)
    return packed


def _rounded(a: Array, block: int) -> Array:
    """`a` with each block of the last axis rounded to multiples of its largest magnitude / 127."""
    depth = a.shape[-1]
    padded = np.pad(a, [(0, 0)] * (a.ndim - 1) + [(0, -depth % block)])
    blocks = padded.reshape(*a.shape[:-1], -1, block)
    largest = np.abs(blocks).max(axis=-1, keepdims=True)
    with np.errstate(all="ignore"):
        inverse = np.where(largest > 0, np.float32(LARGEST) / largest, np.float32(0))
        whole = np.rint(blocks * inverse) * (largest * np.float32(1 / LARGEST))
    return np.asarray(whole.reshape(padded.shape)[..., :depth])
