"""Weights of convolutions to few outputs in the order in which their kernel reads them."""

from __future__ import annotations

import numpy as np

from treadle.passes.lower.conv.weights import Array


def pack_few_outputs(weights: Array, lanes: int) -> Array:
    """[M, C, KH, KW] -> [C / lanes, KH, KW, M, lanes], flat; C padded with zeros."""
    outputs, channels, *kernel = weights.shape
    blocks = -(-channels // lanes)
    padded = np.zeros((outputs, blocks * lanes, *kernel), weights.dtype)
    padded[:, :channels] = weights
    panels = padded.reshape(outputs, blocks, lanes, *kernel)
    return np.ascontiguousarray(panels.transpose(1, 3, 4, 0, 2).reshape(-1))
