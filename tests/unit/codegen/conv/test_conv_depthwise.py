"""Convolutions with narrow groups against the reference, on every instruction set."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.codegen.conv.conv_case import EPILOGUES, Case

from treadle.dtypes import f64
from treadle.plan.target import Target

SAME = (1, 1, 1, 1)

SHAPES = {
    "3x3": Case(32, 32, (14, 14), (3, 3), pads=SAME, groups=32),
    "3x3 with spare lanes": Case(20, 20, (7, 9), (3, 3), pads=SAME, groups=20),
    "3x3 of a wide row": Case(16, 16, (5, 61), (3, 3), pads=SAME, groups=16),
    "3x3 strided": Case(24, 24, (15, 16), (3, 3), strides=(2, 2), pads=SAME, groups=24),
    "5x5": Case(40, 40, (9, 11), (5, 5), pads=(2, 2, 2, 2), groups=40, images=2),
    "7x7 dilated": Case(16, 16, (20, 21), (7, 7), pads=(6, 6, 6, 6), dilations=(2, 2), groups=16),
    "11x11": Case(16, 16, (12, 15), (11, 11), pads=(5, 5, 5, 5), groups=16),
    "1-D": Case(24, 24, (50,), (9,), pads=(4, 4), groups=24),
    "1-D of a wide kernel": Case(16, 16, (70,), (27,), pads=(13, 13), groups=16),
    "groups of two and a wide kernel": Case(16, 16, (1, 70), (1, 20), strides=(1, 2), pads=(0, 9, 0, 9), groups=8),
    "groups of two": Case(32, 32, (7, 8), (3, 3), pads=SAME, groups=16),
    "groups of four": Case(48, 48, (7, 8), (3, 3), strides=(2, 2), pads=SAME, groups=12),
}


@pytest.mark.parametrize("name", SHAPES)
def test_narrow_groups(name: str, target: Target) -> None:
    """A convolution whose groups lie within one block equals the reference."""
    SHAPES[name].check(target)


@pytest.mark.parametrize("epilogue", EPILOGUES)
def test_fused_epilogue(epilogue: str, target: Target) -> None:
    """Epilogues with operands of every kind are applied before the store."""
    replace(SHAPES["3x3 with spare lanes"], epilogue=epilogue, images=2).check(target)


def test_double_precision(target: Target) -> None:
    """The same kernel serves fp64."""
    replace(SHAPES["3x3 strided"], dtype=f64, epilogue="relu").check(target)
