"""Weights of bytes whose products are added in pairs of 16 bits: those that could exceed them are split in two."""

from __future__ import annotations

import numpy as np

from treadle.dtypes import i8
from treadle.passes.lower.base import Array
from treadle.passes.lower.conv.direct.factors import Factors
from treadle.passes.lower.conv.direct.tiling import Tiling
from treadle.passes.lower.conv.shape import ConvShape
from treadle.passes.lower.vnni import bytes_are_faster, listed_remainders, pack_bytes, without_saturation
from treadle.plan.target import Target
from treadle.records import dataclass


@dataclass(frozen=True, slots=True)
class SplitWeights:
    """Packed weights [outputs, elements of channels, rows, columns], and the list `remainders` with its `entries`.

    `steps`: what all groups of outputs multiply without it.
    """

    weights: Array
    remainders: Array
    entries: int
    steps: int

    def is_faster(self, factors: Factors, tiling: Tiling) -> bool:
        """Returns whether bytes take fewer instructions than words."""
        return bytes_are_faster(self.steps, self.entries, tiling.row.vectors, signed=factors.x.dtype == i8)


def split_weights(shape: ConvShape, factors: Factors, tiling: Tiling, target: Target) -> SplitWeights | None:
    """Returns the weights of a convolution of bytes; None where no sum of two products saturates."""
    data = factors.weights.data
    if not factors.vnni or target.has_vnni or data is None:
        return None
    packed = pack_bytes(data.reshape(shape.outputs, shape.group_channels, *shape.kernel), axis=1)
    first, second = without_saturation(packed)
    panel, groups, block = tiling.panel, tiling.groups, factors.block
    padded = np.zeros((groups * panel, *packed.shape[1:]), np.int32)
    padded[: len(second)] = second
    blocks = -(-packed.shape[1] // block)
    filled = np.zeros((groups, panel, blocks * block, *shape.kernel), np.int32)
    filled[:, :, : packed.shape[1]] = padded.reshape(groups, panel, *packed.shape[1:])
    remainders, entries = listed_remainders(filled.reshape(groups, panel, blocks, block, *shape.kernel))
    steps = groups * int(np.prod(packed.shape[1:]))
    return SplitWeights(first, remainders, entries, steps)
