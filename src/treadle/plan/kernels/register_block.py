"""What kernels have in common that sum products in a register block."""

UNROLL = 4
"""Steps of the depth in one turn of a register block's loop, if it brings data ahead."""

FINISHED_TOGETHER = 8
"""Blocks of a product whose long epilogues are one loop: it begins with waiting for the latency of its first steps."""
