"""Weights of direct convolution in the order in which its kernel reads them."""

from __future__ import annotations

import numpy as np

from treadle.passes.lower.conv.weights import Array, in_panels


def pack_direct(weights: Array, groups: int, panel: int, block: int) -> Array:
    """[M, C/g, KH, KW] -> [M / panel, blocks of C/g, KH, lane of a block, KW, panel], flat.

    M is padded with zeros to whole panels; C/g is not padded: the last block of `block` input channels is shorter.
    With several groups, their output channels must be multiples of `panel`.
    """
    assert groups == 1 or (len(weights) // groups) % panel == 0, "a block of outputs would span two groups"
    split = in_panels(weights, panel)
    parts = []
    for begin in range(0, weights.shape[1], block):
        part = split[:, :, begin : begin + block]
        parts.append(part.transpose(0, 3, 2, 4, 1).reshape(len(split), -1))
    return np.ascontiguousarray(np.concatenate(parts, axis=1).reshape(-1))


def pack_plain_input(weights: Array, panel: int) -> Array:
    """[M, C, KH, KW] -> [M / panel, KH, C, KW, panel], flat; M padded with zeros."""
    return np.ascontiguousarray(in_panels(weights, panel).transpose(0, 3, 2, 4, 1).reshape(-1))
