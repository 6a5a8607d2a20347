"""What kernels have in common that sum products in a register block."""

UNROLL = 4
"""Steps of the depth in one turn of a register block's loop, if it brings data ahead."""

FINISHED_TOGETHER = 8
"""Blocks of a product whose long epilogues are one loop: it begins with waiting for the latency of its first steps."""

MOST_SHARERS = 4
"""Blocks that share what is prefetched for a later panel, where their number is open; further ones do as much."""


def shared_lines(lines: int) -> tuple[int, ...]:
    """The numbers of cache lines that a block may prefetch where their number is open, the least first: `lines` by
    itself, or its share of them."""
    return tuple(sorted({-(-lines // sharers) for sharers in range(1, MOST_SHARERS + 1)}))
