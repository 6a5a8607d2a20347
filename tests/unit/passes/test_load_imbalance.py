"""Work is partitioned into chunks with little load imbalance among usual numbers of workers."""

from __future__ import annotations

import pytest

from treadle.passes.lower.base import partition
from treadle.passes.lower.searches import LEAST_CHUNK

CHUNK = 20_000.0
"""What a chunk of a long op is worth, in ns."""


def time_of(chunks: int, per_chunk: int, units: int, workers: int) -> int:
    """The units that the busiest of `workers` does, each drawing the next chunk when it is idle."""
    ends = [0] * workers
    for chunk in range(chunks):
        ends.sort()
        ends[0] += min(per_chunk, units - chunk * per_chunk)
    return max(ends)


@pytest.mark.parametrize("units", [12, 36, 112, 169, 576, 1000])
@pytest.mark.parametrize("microseconds", [9, 17, 31, 48, 66, 99, 140, 330])
def test_two_workers_finish_nearly_together(units: int, microseconds: int) -> None:
    """
    Each does half of the work, up to an eighth of it, if there are enough units.
    """
    chunks, per_chunk = partition(units, microseconds * 1e3 / units, CHUNK)
    assert time_of(chunks, per_chunk, units, 2) <= 1.125 * units / 2


@pytest.mark.parametrize("units", [1, 5, 9, 100, 10_000])
@pytest.mark.parametrize("ns", [0.0, 100.0, 4e3, 1e5, 1e8])
def test_chunks_cover_all_units_and_none_is_empty(units: int, ns: float) -> None:
    """
    The last chunk may be short, but there is something in it.
    """
    chunks, per_chunk = partition(units, ns / units, CHUNK)
    assert (chunks - 1) * per_chunk < units <= chunks * per_chunk


def test_short_work_is_one_chunk_and_long_work_many() -> None:
    """
    A chunk takes longer than drawing it, and there are at most 256.
    """
    assert partition(1000, 0.9 * LEAST_CHUNK * CHUNK / 1000, CHUNK)[0] == 1
    assert partition(1 << 20, 1e6, CHUNK)[0] <= 256
    assert partition(1 << 20, 0.0, CHUNK)[0] == 1


def test_units_per_chunk_are_a_multiple() -> None:
    """
    A chunk of vectors begins where a vector begins.
    """
    for units in (100, 4096, 150_528):
        assert partition(units, 1.0, CHUNK, 64)[1] % 64 == 0
