"""Searches over partitions into chunks, and what they assume. The native core has them: binding repeats them for sizes
that lowering does not know."""

from treadle._native import (
    BYTES_PER_NS,
    CHUNK_NS,
    LEAST_CHUNK_NS,
    choose_band,
    choose_grid,
    imbalance_factor,
    partition_conv,
    partition_planes,
    units_per_chunk,
)

__all__ = [
    "BYTES_PER_NS",
    "CHUNK_NS",
    "LEAST_CHUNK_NS",
    "choose_band",
    "choose_grid",
    "imbalance_factor",
    "partition_conv",
    "partition_planes",
    "units_per_chunk",
]
