"""What packed weights of several algorithms share: panels of output channels, padded with zeros."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def in_panels(weights: Array, panel: int) -> Array:
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
