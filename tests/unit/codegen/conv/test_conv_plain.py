"""The convolution kernel for row-major tensors against the reference, on every instruction set."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.codegen.conv.conv_case import EPILOGUES, Case

from treadle.dtypes import f64
from treadle.plan.target import Target

SAME = (1, 1, 1, 1)

SHAPES = {
    "3x3": Case(5, 7, (9, 21), (3, 3), pads=SAME),
    "3x3 strided": Case(4, 8, (11, 40), (3, 3), strides=(2, 2), pads=(0, 1, 1, 0), images=2),
    "1x1": Case(6, 6, (5, 5), (1, 1)),
    "odd groups": Case(9, 6, (8, 19), (3, 3), pads=SAME, groups=3),
    "depthwise with multiplier": Case(5, 15, (6, 17), (3, 3), pads=SAME, groups=5),
    "dilated, padded beyond the kernel": Case(3, 4, (7, 7), (3, 3), pads=(5, 6, 5, 6), dilations=(3, 2)),
    "1-D": Case(6, 10, (33,), (5,), pads=(2, 2), strides=(2,)),
}


@pytest.mark.parametrize("name", SHAPES)
def test_plain_convolution(name: str, target: Target) -> None:
    """A convolution between row-major tensors equals the reference."""
    replace(SHAPES[name], plain_output=True).check(target)


@pytest.mark.parametrize("epilogue", EPILOGUES)
def test_fused_epilogue(epilogue: str, target: Target) -> None:
    """Epilogues with operands of every kind are applied before the store."""
    replace(SHAPES["3x3"], plain_output=True, epilogue=epilogue, images=2).check(target)


def test_computed_weights(target: Target) -> None:
    """Weights that another node computes are read as they are."""
    replace(SHAPES["odd groups"], plain_output=True, computed_weights=True).check(target)


def test_double_precision(target: Target) -> None:
    """The same kernel serves fp64."""
    replace(SHAPES["3x3 strided"], plain_output=True, dtype=f64).check(target)
