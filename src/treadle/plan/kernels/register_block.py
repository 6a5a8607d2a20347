"""What kernels have in common that sum products in a register block."""

UNROLL = 4
"""Steps of the depth in one turn of a register block's loop."""
