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
    assert groups == 1 or (len(weights) // groups) % panel == 0, "a block of outputs would span two groups"
    split = _in_panels(weights, panel)
    parts = []
    for begin in range(0, weights.shape[1], block):
        part = split[:, :, begin : begin + block]
        parts.append(part.transpose(0, 3, 2, 4, 1).reshape(len(split), -1))
    return np.ascontiguousarray(np.concatenate(parts, axis=1).reshape(-1))


def pack_plain_input(weights: Array, panel: int) -> Array:
    """[M, C, KH, KW] -> [M / panel, KH, C, KW, panel], flat; M padded with zeros."""
    return np.ascontiguousarray(_in_panels(weights, panel).transpose(0, 3, 2, 4, 1).reshape(-1))


def pack_within_blocks(weights: Array, lanes: int) -> Array:
    """[M, c, KH, KW] with M outputs of groups that have c inputs and c outputs -> [M / lanes, KH, KW, c, lanes], flat."""
    return np.ascontiguousarray(_in_panels(weights, lanes).transpose(0, 3, 4, 2, 1).reshape(-1))


def _in_panels(weights: Array, panel: int) -> Array:
    """[M, C, KH, KW] -> [M / panel, panel, C, KH, KW]; M padded with zeros."""
    panels = -(-len(weights) // panel)
    padded = np.zeros((panels * panel, *weights.shape[1:]), weights.dtype)
    padded[: len(weights)] = weights
    return padded.reshape(panels, panel, *weights.shape[1:])


def pack_channels(values: Array, padded: int) -> Array:
    """One element an output channel, in any shape of that many elements (or of one) -> [padded], zeros behind."""
    result = np.zeros(padded, values.dtype)
    flat = values.reshape(-1)
    result[: flat.size] = flat
    return result
