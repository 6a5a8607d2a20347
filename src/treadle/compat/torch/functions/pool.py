"""Pooling over windows of a size, or (adaptive) into results of a size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from treadle.compat.torch.dispatch import tensor_function
from treadle.compat.torch.functions.rule import apply_rule, of_op
from treadle.compat.torch.tensor import Tensor


def _adaptive_max(rank: int) -> Callable[..., Tensor]:
    op = f"adaptive_max_pool{rank}d"

    def function(input: Tensor, output_size: Any) -> Tensor:
        largest: Tensor = apply_rule(op, (input, output_size))[0]
        return largest

    function.__name__, function.__doc__ = op, f"Computes {op} as PyTorch does; it cannot return indices."
    return tensor_function(function)


max_pool1d, max_pool2d, max_pool3d = (of_op(f"max_pool{rank}d") for rank in (1, 2, 3))
avg_pool1d, avg_pool2d, avg_pool3d = (of_op(f"avg_pool{rank}d") for rank in (1, 2, 3))
adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d = (
    of_op(f"adaptive_avg_pool{rank}d") for rank in (1, 2, 3)
)
adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d = (_adaptive_max(rank) for rank in (1, 2, 3))
