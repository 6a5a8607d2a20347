"""What kernels have in common that sum products in a register block."""

UNROLL = 4
"""Steps of the depth in one turn of a register block's loop, if it brings data ahead."""

FINISHED_TOGETHER = 8
"""Blocks of a product whose long epilogues are one loop: it begins with waiting for the latency of its first steps."""

REMAINDER_HEAD = 8
"""Numbers in front of the weights of a remainder, which so stay aligned.

Remainders are the second terms of weights that were split, so that no sum of two products of bytes exceeds 16 bits. A
list of them is i32: for each panel of outputs the number of its first entry, and the number of all, filled up to a
multiple of REMAINDER_HEAD; then the entries. An entry is what it multiplies, filled up to REMAINDER_HEAD, and the
weights of a panel.
"""

MOST_SHARERS = 4
"""Blocks that share what is prefetched for a later panel, where their number is open; further ones do as much."""


def shared_lines(lines: int) -> tuple[int, ...]:
    """The numbers of cache lines that a block may prefetch where their number is open, the least first: `lines` by
    itself, or its share of them."""
    return tuple(sorted({-(-lines // sharers) for sharers in range(1, MOST_SHARERS + 1)}))
