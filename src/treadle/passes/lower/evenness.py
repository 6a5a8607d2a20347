"""How evenly chunks can be shared out, whoever will share them: results must not depend on the number of workers."""

from __future__ import annotations

from math import log

USUAL_WORKERS = {1: 0.3, 2: 0.3, 4: 0.25, 8: 0.15}
"""Numbers of workers, and how much it counts that chunks come out even among them."""

_TOO_FEW, _TOO_MANY = 0.3, 0.1
"""The part of the time that it counts as to have 1/e, or e times, as many chunks as wanted."""


def loss(rows: tuple[int, int], columns: tuple[int, int], wanted: float) -> float:
    """The part of the time that is lost where work is cut along two axes, each (units, units a chunk).

    Chunks are taken row by row; those at the ends of both axes may be smaller. Lost is what workers wait for each other,
    of as many workers as the work is worth `wanted` chunks; another number of chunks counts a little too. Products of
    tiles, whose costs were fitted with chunks of one size, are rated by `conv_tile_groups.unevenness` instead.
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
    """(chunks, units in the last one)."""
    count = -(-units // each)
    return count, units - (count - 1) * each
