"""How direct convolution into the blocked layout is divided: groups of outputs, passes over input channels, chunks."""

from __future__ import annotations

from treadle.graph.dim import ceil_div
from treadle.passes.lower.conv.rows import RowTiling
from treadle.records import dataclass


@dataclass(frozen=True, slots=True)
class Tiling:
    """One way to compute a convolution.

    The output channels are `groups` groups of `panel`, which are as many as `row` has vectors. Of the `channels`
    elements along the input's channels, `channels_per_pass` are summed between two stores of the sums, `unroll` in a
    turn of the innermost loop. `units` are the rows of an image, or its register blocks if it is one long row. A chunk
    is `units_per_chunk` of the units of all images, in `groups_per_chunk` groups; `unit_chunks` chunks cover all units.
    """

    row: RowTiling
    panel: int
    groups: int
    channels: int
    channels_per_pass: int
    unroll: int
    units: int
    unit_chunks: int
    units_per_chunk: int
    groups_per_chunk: int

    @property
    def outputs(self) -> int:
        """Output channels of all groups, with those that fill up the last one."""
        return self.groups * self.panel

    @property
    def has_passes(self) -> bool:
        """Whether sums are stored before they are finished."""
        return self.channels_per_pass < self.channels

    @property
    def chunks(self) -> int:
        """Chunks of the whole convolution."""
        return self.unit_chunks * ceil_div(self.groups, self.groups_per_chunk)
