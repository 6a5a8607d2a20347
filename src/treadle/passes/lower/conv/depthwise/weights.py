"""Weights of convolutions with narrow groups in the order in which their kernel reads them."""

from __future__ import annotations

import numpy as np

from treadle.passes.lower.conv.weights import Array, in_panels


def pack_within_blocks(weights: Array, lanes: int) -> Array:
    """[M, c, KH, KW], groups of c inputs and c outputs -> [M / lanes, KH, KW, c, lanes], flat; M padded."""
    return np.ascontiguousarray(in_panels(weights, lanes).transpose(0, 3, 4, 2, 1).reshape(-1))
