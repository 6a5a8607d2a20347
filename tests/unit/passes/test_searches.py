"""The searches of the native core choose what they chose before, and follow sizes that binding knows."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from treadle.graph.dim import hint_of, is_expression
from treadle.graph.facts import Facts
from treadle.passes.lower import searches
from treadle.passes.lower.base import partition
from treadle.passes.lower.gemm_tiles import Tile, choose_grid
from treadle.plan.binder import OPS
from treadle.plan.target import Target

HERE = Path(__file__).parent
TARGET = Target("avx512", "x86_64-unknown-linux-gnu", "", "", 64, 32, 1 << 15, 1 << 20, 1 << 25)
L2, L3, L3_SHARED, CHUNK = 40.0, 32.0, 16.0, 20_000.0
WINOGRAD = 0.1, 0.03, 3000.0, 64_000.0, 8
"""The machine with which the partitions were recorded."""


def recorded(name: str) -> list[list[str]]:
    with (HERE / name).open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))[1:]


def test_partitions_are_those_recorded() -> None:
    """
    A plan compiled again has the same chunks, so the same results.
    """
    rows = recorded("recorded_partitions.csv")
    assert len(rows) == 300
    for units, ns, multiple, *expected in rows:
        assert partition(int(units), float(ns), CHUNK, int(multiple)) == tuple(map(int, expected))


def test_grids_are_those_recorded() -> None:
    """
    The chunks of products stay the same too.
    """
    rows = recorded("recorded_grids.csv")
    assert len(rows) == 300
    for row in rows:
        blocks, panels, batches, l2 = (int(row[i]) for i in (0, 1, 2, 6))
        times = [float(row[i]) for i in (3, 4, 5)]
        grid = searches.choose_grid(blocks, panels, batches, *times, l2, row[7] == "1", float(row[8]), L2, L3, CHUNK)
        assert grid == tuple(map(int, row[9:]))


def test_no_units_are_no_chunks() -> None:
    """
    Kernels divide by the sizes of axes, which are 0 then.
    """
    assert partition(0, 10.0, CHUNK) == (0, 1)


def test_empty_axes_are_refused() -> None:
    """
    Division by their sizes would end the process.
    """
    with pytest.raises(ValueError, match="units and groups must be at least 1, got 0 and 3"):
        searches.partition_conv(0, 3, 1e5, 100, 100, L3_SHARED, CHUNK)
    with pytest.raises(ValueError, match="planes and rows must be at least 1, got 4 and 0"):
        searches.partition_planes(4, 0, 1e5, CHUNK)
    with pytest.raises(ValueError, match="rows and reach must be at least 1, got 0 and 3"):
        searches.choose_band(1, 4, 0, 64, 3, 2, 64, 0, 1e5, 1e4, 1 << 20, L3, L3_SHARED, CHUNK)


def test_partitions_of_convolutions_are_those_recorded() -> None:
    """
    Direct and depthwise convolutions, and those that are pooled at once.
    """
    rows = recorded("recorded_convolutions.csv")
    assert {kind for kind, *_ in rows} == {"direct", "depthwise", "pooled"}
    for kind, *texts in rows:
        numbers = [float(text) if "." in text else int(text) for text in texts]
        if kind == "direct":
            assert searches.partition_conv(*numbers[:5], L3_SHARED, CHUNK) == tuple(numbers[5:])
        elif kind == "depthwise":
            assert searches.partition_planes(*numbers[:3], CHUNK) == tuple(numbers[3:])
        else:
            assert searches.choose_band(*numbers[:11], L3, L3_SHARED, CHUNK) == numbers[11]


@pytest.mark.parametrize("speed", [0.375, 2.0, 7.0])
def test_a_machine_that_is_faster_in_everything_has_the_same_chunks(speed: float) -> None:
    """
    What a chunk is worth follows the machine: an op that takes half the time is divided as before.
    """
    ns, slow, fast = 7.3e5, CHUNK, CHUNK / speed
    assert partition(5000, ns / 5000, slow, 8) == partition(5000, ns / speed / 5000, fast, 8)
    assert searches.partition_planes(96, 28, ns, slow) == searches.partition_planes(96, 28, ns / speed, fast)
    conv = 196, 8, ns, 1 << 18, 1 << 20, L3_SHARED, slow
    faster = 196, 8, ns / speed, 1 << 18, 1 << 20, speed * L3_SHARED, fast
    assert searches.partition_conv(*conv) == searches.partition_conv(*faster)
    product = 60, 16, 1, 2000.0, 4e5, 2e6, 1 << 20, True, 1.0, L2, L3, slow
    sooner = 60, 16, 1, 2000.0 / speed, 4e5, 2e6, 1 << 20, True, 1.0, speed * L2, speed * L3, fast
    assert searches.choose_grid(*product) == searches.choose_grid(*sooner)


def test_imbalance_factor_refuses_no_chunks() -> None:
    """
    Nothing has no balance.
    """
    with pytest.raises(ValueError, match="at least 1, got 0"):
        searches.imbalance_factor(0)


def test_partitions_of_open_sizes_are_expressions() -> None:
    """
    Nothing is assumed of the size, and the sample has the partition that its number would have.
    """
    facts = Facts()
    units = facts.symbol("n", 1000) * 8
    chunks, per_chunk = partition(units, 40.0, CHUNK, 16)
    assert is_expression(per_chunk)
    assert not facts.guards
    assert (hint_of(chunks), hint_of(per_chunk)) == partition(8000, 40.0, CHUNK, 16)


def test_grids_of_open_sizes_are_expressions() -> None:
    """
    The same for products, whose times depend on sizes too.
    """
    facts = Facts()
    panels = facts.symbol("n", 40)
    tile = Tile((9,), 15, 15, 3)
    grid = choose_grid(tile, panels, 1, 2000.0, 4e5, panels * 5e4, TARGET, copies=True)
    known = choose_grid(tile, 40, 1, 2000.0, 4e5, 2e6, TARGET, copies=True)
    assert is_expression(grid.panels)
    assert not facts.guards
    found = tuple(map(hint_of, (grid.batches, grid.blocks, grid.panels)))
    assert found == (known.batches, known.blocks, known.panels)


def test_partitions_of_winograd_are_those_recorded() -> None:
    """
    Tiles of a group, groups of a chunk and costs.
    """
    rows = recorded("recorded_winograd.csv")
    assert len(rows) == 300
    for texts in rows:
        numbers: list[Any] = [float(text) if "." in text else int(text) for text in texts]
        numbers[10] = numbers[10] == 1
        assert searches.partition_winograd(*numbers[:18], *WINOGRAD) == tuple(numbers[18:])


@pytest.mark.parametrize(
    ("position", "number", "fault"),
    [(0, 0, "without results"), (1, 7, "least height"), (5, 0, r"1\.\.2\*\*24"), (11, float("nan"), "finite")],
)
def test_impossible_partitions_of_winograd_are_refused(position: int, number: float, fault: str) -> None:
    """
    Division by their sizes would end the process.
    """
    request: list[Any] = [
        12,
        4,
        6,
        2,
        50,
        64,
        8,
        8,
        36,
        1,
        True,
        100.0,
        50.0,
        0.0,
        0.3,
        1 << 20,
        32,
        1 << 20,
        *WINOGRAD,
    ]
    assert len(searches.partition_winograd(*request)) == 5
    request[position] = number
    with pytest.raises(ValueError, match=fault):
        searches.partition_winograd(*request)


def test_lowering_has_every_search_that_the_binder_has() -> None:
    after_arithmetic = OPS.index("real_sqrt") + 1
    assert set(searches.FUNCTIONS) == set(OPS[after_arithmetic:])
