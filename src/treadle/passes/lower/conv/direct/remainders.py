"""Weights of bytes whose products are added in pairs of 16 bits: those that could exceed them are split in two."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treadle.dtypes import i8
from treadle.passes.lower.base import Array
from treadle.passes.lower.conv.direct.factors import Factors
from treadle.passes.lower.conv.direct.tiling import Tiling
from treadle.passes.lower.conv.shape import ConvShape
from treadle.passes.lower.vnni import pack_bytes, without_saturation
from treadle.plan.kernels.conv.direct import REMAINDER_HEAD
from treadle.plan.target import Target


@dataclass(frozen=True, slots=True)
class SplitWeights:
    """Packed weights [outputs, elements of channels, rows, columns] and the list of their remainders.

    `remainders` is as DirectConvSpec says, `entries` the number of its entries; the products of each step of a group
    are `steps` in all.
    """

    weights: Array
    remainders: Array
    entries: int
    steps: int

    def is_faster(self, factors: Factors, tiling: Tiling) -> bool:
        """Returns whether bytes take fewer instructions than words: three for four products of a lane instead of four.

        Signed bytes take one more for each pixel of a register block.
        """
        flipped = self.steps / tiling.row.vectors if factors.x.dtype == i8 else 0
        return 3 * (self.steps + self.entries) + flipped < 4 * self.steps


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
    grouped = padded.reshape(groups, panel, *packed.shape[1:])
    group, element, row, column = np.nonzero(grouped.any(axis=1))
    entries = np.zeros((len(group), REMAINDER_HEAD + panel), np.int32)
    entries[:, :4] = np.stack([element // block, element % block, row, column], axis=1)
    entries[:, REMAINDER_HEAD:] = grouped[group, :, element, row, column]
    starts = np.zeros(-(-(groups + 1) // REMAINDER_HEAD) * REMAINDER_HEAD, np.int32)
    starts[: groups + 1] = np.searchsorted(group, np.arange(groups + 1))
    steps = groups * int(np.prod(packed.shape[1:]))
    return SplitWeights(first, np.concatenate([starts, entries.reshape(-1)]), len(group), steps)
