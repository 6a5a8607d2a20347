"""Convolutions and their transposes."""

from __future__ import annotations

from treadle.compat.torch.functions.rule import of_op

conv1d, conv2d, conv3d = (of_op(f"conv{rank}d") for rank in (1, 2, 3))
conv_transpose1d, conv_transpose2d, conv_transpose3d = (of_op(f"conv_transpose{rank}d") for rank in (1, 2, 3))
