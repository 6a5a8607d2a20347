"""Weights of convolutions in the order that their kernels read them."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def pack_direct(weights: Array, groups: int, lanes: int, vectors: int) -> Array:
    """[M, C/g, KH, KW] -> [M / (vectors * lanes), blocks of C/g, KH, lane of C/g, KW, vectors * lanes], flat.

    M is padded with zeros to whole blocks of `lanes`; C/g is not padded: the last block of input channels is
    shorter. With several groups, their output channels must be multiples of vectors * lanes.
    """
    outputs, channels, height, width = weights.shape
    assert groups == 1 or (outputs // groups) % (vectors * lanes) == 0, "a block of outputs would span two groups"
    blocks = -(-outputs // (vectors * lanes))
    padded = np.zeros((blocks * vectors * lanes, channels, height, width), weights.dtype)
    padded[:outputs] = weights
    split = padded.reshape(blocks, vectors * lanes, channels, height, width)
    parts = []
    for begin in range(0, channels, lanes):
        part = split[:, :, begin : begin + lanes]
        parts.append(part.transpose(0, 3, 2, 4, 1).reshape(blocks, -1))
    return np.ascontiguousarray(np.concatenate(parts, axis=1).reshape(-1))


def pack_plain_input(weights: Array, lanes: int, vectors: int) -> Array:
    """[M, C, KH, KW] -> [M / (vectors * lanes), KH, C, KW, vectors * lanes], flat; M padded with zeros."""
    outputs, channels, height, width = weights.shape
    blocks = -(-outputs // (vectors * lanes))
    padded = np.zeros((blocks * vectors * lanes, channels, height, width), weights.dtype)
    padded[:outputs] = weights
    split = padded.reshape(blocks, vectors * lanes, channels, height, width)
    return np.ascontiguousarray(split.transpose(0, 3, 2, 4, 1).reshape(-1))


def pack_within_blocks(weights: Array, lanes: int) -> Array:
    """[M, c, KH, KW] with M outputs of groups that have c inputs and c outputs -> [M / lanes, KH, KW, c, lanes], flat."""
    outputs, width, kernel_height, kernel_width = weights.shape
    blocks = -(-outputs // lanes)
    padded = np.zeros((blocks * lanes, width, kernel_height, kernel_width), weights.dtype)
    padded[:outputs] = weights
    split = padded.reshape(blocks, lanes, width, kernel_height, kernel_width)
    return np.ascontiguousarray(split.transpose(0, 3, 4, 2, 1).reshape(-1))


def pack_channels(values: Array, padded: int) -> Array:
    """One element an output channel, in any shape of that many elements (or of one) -> [padded], zeros behind."""
    result = np.zeros(padded, values.dtype)
    flat = values.reshape(-1)
    result[: flat.size] = flat
    return result
