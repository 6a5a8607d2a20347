"""Load imbalance of a partition into chunks, without the number of workers: results must not depend on it."""

from __future__ import annotations

from math import log

USUAL_WORKERS = {1: 0.3, 2: 0.3, 4: 0.25, 8: 0.15}
"""Number of workers -> the weight of the load imbalance among them."""

_TOO_FEW, _TOO_MANY = 0.3, 0.1
"""The share of the time that is charged where there are 1/e, or e times, as many chunks as wanted."""


def load_imbalance(rows: tuple[int, int], columns: tuple[int, int], wanted: float) -> float:
    """Returns the share of the time that is lost where work is partitioned along two axes, each (units, units a chunk).

    Workers draw chunks row by row; the last chunk of each axis may be smaller. Lost is the time in which workers wait
    for each other, averaged over numbers of workers up to the `wanted` number of chunks. Other numbers of chunks than
    `wanted` are charged a little. Products of tiles, whose costs were fitted with equal chunks, use
    `conv.tile_product.imbalance_factor` instead.
    """
    (row_count, row_last), (column_count, column_last) = _ends(*rows), _ends(*columns)
    chunks, whole = row_count * column_count, rows[0] * columns[0]
    full = (row_count - 1) * column_count
    worth = max(int(wanted), chunks)
    waited = 0.0
    for workers, share in USUAL_WORKERS.items():
        if workers == 1:
            continue
        rounds, large = -(-chunks // workers), -(-full // workers)
        time = (large * rows[1] + (rounds - large) * row_last) * columns[1]
        if chunks - (rounds - 1) * workers == 1:
            time -= (row_last if rounds > large else rows[1]) * columns[1] - row_last * column_last
        waited += share * (time * min(workers, worth) / whole - 1.0)
    return waited + max(_TOO_FEW * log(wanted / chunks), _TOO_MANY * log(chunks / wanted))


def _ends(units: int, each: int) -> tuple[int, int]:
    """Returns (chunks, units in the last one)."""
    count = -(-units // each)
    return count, units - (count - 1) * each
