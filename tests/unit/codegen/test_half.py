"""f16 is widened and rounded in registers, on every instruction set."""

from __future__ import annotations

import numpy as np
from tests.unit.codegen.test_bfloat import cast

from treadle.dtypes import f16, f32
from treadle.plan.target import Target


def test_every_f16_is_widened_exactly(target: Target) -> None:
    """
    All 65,536 patterns, subnormals and infinities among them; NaN stays NaN.
    """
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    wide, wanted = cast(halves, f16, f32, target), halves.astype(np.float32)
    numbers = ~np.isnan(wanted)
    assert np.array_equal(wide.view(np.uint32)[numbers], wanted.view(np.uint32)[numbers])
    assert np.isnan(wide[~numbers]).all()


def test_f32_is_rounded_to_the_nearest_f16_ties_to_even(target: Target) -> None:
    """
    Every f16, the ties between neighbours, what is just beside a tie, and numbers beyond the range, of both signs.
    """
    exact = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float64)
    ties = np.append((exact[:-1] + exact[1:]) / 2, 65520.0).astype(np.float32)
    beside = [np.nextafter(ties, np.float32(side)) for side in (0, np.inf)]
    far = np.array([65504, 65536, 1e6, 3e38, np.inf, 2.0**-26, 2.0**-149, 1e-40], np.float32)
    values = np.concatenate([exact.astype(np.float32), ties, *beside, far])
    values = np.concatenate([values, -values])
    with np.errstate(over="ignore"):
        wanted = values.astype(np.float16)
    assert np.array_equal(cast(values, f32, f16, target).view(np.uint16), wanted.view(np.uint16))


def test_nan_stays_nan(target: Target) -> None:
    nans = np.array([0x7F800001, 0x7FC00000, 0x7FFFFFFF, 0xFF800001, 0xFFFFFFFF], np.uint32).view(np.float32)
    assert np.isnan(cast(nans, f32, f16, target)).all()
