"""Weights of convolutions to few outputs in the order in which their kernel reads them."""

from __future__ import annotations

import numpy as np

from treadle.passes.lower.conv.weights import Array, in_panels


def pack_few_outputs(weights: Array, lanes: int) -> Array:
    """[M, C, KH, KW] -> [C / lanes, KH, KW, M, lanes], flat; C padded with zeros."""
    return np.ascontiguousarray(in_panels(weights.swapaxes(0, 1), lanes).transpose(0, 3, 4, 2, 1).reshape(-1))
