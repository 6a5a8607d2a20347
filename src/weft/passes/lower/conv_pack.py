"""Weights of convolutions in the order that their kernels read them."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def pack_direct(weights: Array, groups: int, panel: int, block: int) -> Array:
    """[M, C/g, KH, KW] -> [M / panel, blocks of C/g, KH, lane of a block, KW, panel], flat.

    M is padded with zeros to whole panels; C/g is not padded: the last block of `block` input channels is shorter.
    With several groups, their output channels must be multiples of `panel`.
    """
    outputs, channels, height, width = weights.shape
    assert groups == 1 or (outputs // groups) % panel == 0, "a block of outputs would span two groups"
    blocks = -(-outputs // panel)
    padded = np.zeros((blocks * panel, channels, height, width), weights.dtype)
    padded[:outputs] = weights
    split = padded.reshape(blocks, panel, channels, height, width)
    parts = []
    for begin in range(0, channels, block):
        part = split[:, :, begin : begin + block]
        parts.append(part.transpose(0, 3, 2, 4, 1).reshape(blocks, -1))
    return np.ascontiguousarray(np.concatenate(parts, axis=1).reshape(-1))


def pack_plain_input(weights: Array, panel: int) -> Array:
    """[M, C, KH, KW] -> [M / panel, KH, C, KW, panel], flat; M padded with zeros."""
    outputs, channels, height, width = weights.shape
    blocks = -(-outputs // panel)
    padded = np.zeros((blocks * panel, channels, height, width), weights.dtype)
    padded[:outputs] = weights
    split = padded.reshape(blocks, panel, channels, height, width)
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
