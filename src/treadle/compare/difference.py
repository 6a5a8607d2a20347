"""How far an array is from the one that was wanted."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from treadle import dtypes

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Difference:
    """What distinguishes an array from the one that was wanted.

    Attributes:
        error: The largest distance of two elements, as a share of the largest finite magnitude that was wanted; for
            dtypes without fractions, the share of elements that differ. Infinite where dtypes or shapes differ, or a
            NaN or infinity has no counterpart.
        where: The index of the element that is farthest away; None if the arrays agree in every bit of every element,
            or cannot be compared element by element.
        why: What is wrong where elements cannot be compared; else empty.
        tolerance: The largest error at which the arrays agree.
    """

    error: float
    where: tuple[int, ...] | None
    why: str
    tolerance: float

    @property
    def parts(self) -> bool:
        """True if the error is beyond the tolerance."""
        return not self.error <= self.tolerance


def difference(got: Array, wanted: Array, tolerance: float) -> Difference:
    """Compare `got` with `wanted`.

    Args:
        got: What one engine computed.
        wanted: What the other did, of any dtype and shape.
        tolerance: The largest error at which floats agree.
    """
    try:
        kind, other = dtypes.from_numpy(got.dtype), dtypes.from_numpy(wanted.dtype)
    except TypeError as error:
        return Difference(math.inf, None, str(error), 0.0)
    if kind != other or got.shape != wanted.shape:
        why = f"{kind}{list(got.shape)} in place of {other}{list(wanted.shape)}"
        return Difference(math.inf, None, why, 0.0)
    if not kind.is_float:
        unequal = np.asarray(got != wanted)
        share = float(unequal.mean()) if unequal.size else 0.0
        return Difference(share, _first(unequal) if share else None, "", 0.0)
    mine, theirs = got.astype(np.float64), wanted.astype(np.float64)
    finite = np.isfinite(theirs)
    odd = ~finite & ~((mine == theirs) | (np.isnan(mine) & np.isnan(theirs))) | (finite & ~np.isfinite(mine))
    if odd.any():
        at = _first(odd)
        return Difference(math.inf, at, f"{mine[at]:g} in place of {theirs[at]:g}", tolerance)
    distance = np.abs(np.subtract(mine, theirs, out=np.zeros_like(mine), where=finite))
    largest = float(distance.max(initial=0.0))
    if largest == 0.0:
        return Difference(0.0, None, "", tolerance)
    scale = float(np.abs(theirs, where=finite, out=np.zeros_like(theirs)).max(initial=0.0))
    at = tuple(int(i) for i in np.unravel_index(int(distance.argmax()), distance.shape))
    return Difference(largest / scale if scale else math.inf, at, "", tolerance)


def _first(found: Array) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(int(found.argmax()), found.shape))
