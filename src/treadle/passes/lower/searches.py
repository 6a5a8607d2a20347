"""Searches over partitions into chunks, and what they assume. The native core has them: binding repeats them for sizes
that lowering does not know."""

from collections.abc import Callable

from treadle._native import (
    LEAST_CHUNK,
    choose_band,
    choose_grid,
    imbalance_factor,
    partition_conv,
    partition_planes,
    partition_winograd,
    units_per_chunk,
)

FUNCTIONS: dict[str, Callable[..., int]] = {
    "units_per_chunk": units_per_chunk,
    "conv.units": lambda *sizes: partition_conv(*sizes)[0],
    "conv.groups": lambda *sizes: partition_conv(*sizes)[1],
    "planes.planes": lambda *sizes: partition_planes(*sizes)[0],
    "planes.rows": lambda *sizes: partition_planes(*sizes)[1],
    "grid.batches": lambda *sizes: choose_grid(*sizes)[0],
    "grid.blocks": lambda *sizes: choose_grid(*sizes)[1],
    "grid.panels": lambda *sizes: choose_grid(*sizes)[2],
    "winograd.tiles": lambda *sizes: partition_winograd(*sizes)[0],
    "winograd.groups": lambda *sizes: partition_winograd(*sizes)[1],
    "winograd.input": lambda *sizes: partition_winograd(*sizes)[2],
    "winograd.product": lambda *sizes: partition_winograd(*sizes)[3],
    "winograd.total": lambda *sizes: partition_winograd(*sizes)[4],
}
"""The functions that expressions of sizes call, by the names that the binder knows."""

__all__ = [
    "FUNCTIONS",
    "LEAST_CHUNK",
    "choose_band",
    "choose_grid",
    "imbalance_factor",
    "partition_conv",
    "partition_planes",
    "partition_winograd",
    "units_per_chunk",
]
