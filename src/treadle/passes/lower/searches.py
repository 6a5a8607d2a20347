"""Searches over partitions into chunks, and what they assume. The native core has them: binding repeats them for sizes
that lowering does not know."""

from treadle._native import (
    BYTES_PER_NS,
    CHUNK_NS,
    LEAST_CHUNK_NS,
    MAX_CHUNKS,
    USEFUL_CHUNKS,
    choose_grid,
    imbalance_factor,
    load_imbalance,
    units_per_chunk,
    wanted_chunks,
)

__all__ = [
    "BYTES_PER_NS",
    "CHUNK_NS",
    "LEAST_CHUNK_NS",
    "MAX_CHUNKS",
    "USEFUL_CHUNKS",
    "choose_grid",
    "imbalance_factor",
    "load_imbalance",
    "units_per_chunk",
    "wanted_chunks",
]
