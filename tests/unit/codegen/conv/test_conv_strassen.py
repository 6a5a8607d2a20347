"""Pointwise convolution by Strassen's algorithm against the reference in float64, on every instruction set."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from tests.unit.codegen.conv.conv_case import EPILOGUES, FAST_LIMIT, Case

from treadle.codegen import target as targets
from treadle.dtypes import f64
from treadle.passes.lower.conv.strassen import lower
from treadle.passes.lower.conv.strassen.cost import choose_tiling
from treadle.passes.lower.conv.strassen.tiling import Tiling, tilings
from treadle.passes.lower.conv.strassen.weights import right_sums
from treadle.plan.kernels.conv.strassen import PRODUCTS
from treadle.plan.target import Target


def pointwise(
    channels: int, outputs: int, size: tuple[int, int], strides: tuple[int, int] = (1, 1), images: int = 1
) -> Case:
    """A convolution that may be done by Strassen's algorithm."""
    return Case(channels, outputs, size, (1, 1), strides=strides, images=images, math="fast")


SHAPES = {
    "whole tiles and parts": pointwise(64, 128, (8, 8)),
    "pixels beyond the last tile": pointwise(64, 64, (5, 7)),
    "outputs beyond the last part": pointwise(64, 100, (6, 6)),
    "outputs beyond the last group": pointwise(64, 320, (6, 6)),
    "fewer outputs than a part": pointwise(64, 7, (6, 6)),
    "one pixel": pointwise(64, 64, (1, 1)),
    "several images": pointwise(128, 64, (5, 5), images=3),
    "strides": pointwise(64, 64, (9, 11), strides=(2, 3)),
    "strides of several images": pointwise(128, 72, (8, 8), strides=(2, 2), images=2),
    "many tiles": pointwise(64, 64, (40, 37)),
}


def tilings_of_side(case: Case, target: Target, side: int) -> Iterator[Tiling]:
    """The tilings of `case` into tiles of `side` pixels, one for each number of vectors."""
    seen: set[int] = set()
    for tiling in tilings(case.shape(target), target):
        if tiling.side == side and tiling.group.vectors not in seen:
            seen.add(tiling.group.vectors)
            yield tiling


def check(case: Case, target: Target, tiling: Tiling, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel of `tiling` agrees with float64 within FAST_LIMIT, and chunks in reverse order give the same bits."""
    monkeypatch.setattr(lower, "choose_tiling", lambda shape, target: tiling)
    case.check_error(target, FAST_LIMIT, tiling)


@pytest.mark.parametrize("side", PRODUCTS)
@pytest.mark.parametrize("name", SHAPES)
def test_shapes(name: str, side: int, target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles and parts that reach beyond the output are computed as if there were zeros, and not stored."""
    first, *_ = tilings_of_side(SHAPES[name], target, side)
    check(SHAPES[name], target, first, monkeypatch)


@pytest.mark.parametrize("side", PRODUCTS)
def test_tilings(side: int, target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every number of vectors computes the same convolution."""
    case = pointwise(64, 272, (7, 9), images=2)
    for tiling in tilings_of_side(case, target, side):
        check(case, target, tiling, monkeypatch)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("epilogue", ["", *EPILOGUES])
def test_epilogues(epilogue: str, bias: bool, target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """Epilogues are applied to whole tiles and to those at the border of the output."""
    case = replace(pointwise(64, 88, (5, 5)), epilogue=epilogue, bias=bias)
    for side in PRODUCTS:
        first, *_ = tilings_of_side(case, target, side)
        check(case, target, first, monkeypatch)


LAYERS = {
    "256 to 512 channels": pointwise(256, 512, (28, 28)),
    "512 to 256 channels": pointwise(512, 256, (28, 28)),
    "1024 to 256 channels": pointwise(1024, 256, (14, 14)),
    "every second pixel": pointwise(256, 512, (28, 28), strides=(2, 2)),
}


@pytest.mark.parametrize("side", PRODUCTS)
@pytest.mark.parametrize("name", LAYERS)
def test_error_of_real_layers(name: str, side: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Layers as networks have them stay far below the limit, with both sizes of tiles."""
    target = targets.detect()
    case = LAYERS[name]
    first, *_ = tilings_of_side(case, target, side)
    monkeypatch.setattr(lower, "choose_tiling", lambda shape, target: first)
    case.check_error(target, FAST_LIMIT / 2)


def test_exact_math_never_uses_it(target: Target) -> None:
    """Sums of sums round differently from sums of products: math="exact" keeps to the latter, and so does fp64."""
    case = pointwise(256, 256, (56, 56))
    assert choose_tiling(case.shape(target), target) is not None, "the layer should gain from it"
    assert case.families(target) == ["conv_strassen"]
    assert replace(case, math="exact").families(target) == ["conv"]
    assert replace(case, dtype=f64).families(target) == ["conv"]


@pytest.mark.parametrize(
    "case",
    [
        pointwise(256, 256, (1, 1)),
        pointwise(64, 64, (56, 56)),
        pointwise(512, 2048, (7, 7)),
        pointwise(250, 256, (56, 56)),
    ],
    ids=["one pixel", "few channels", "weights that outweigh the pixels", "channels that do not fill parts"],
)
def test_not_used_where_it_is_slower(case: Case) -> None:
    """Layers with too little to save keep direct convolution."""
    assert case.families(targets.detect()) == ["conv"]


def test_sums_of_weights_and_inputs_make_a_product() -> None:
    """Products of right factors with left ones, added up as the kernels do, are the product of the matrices."""
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 2)), rng.standard_normal((2, 2))
    s1 = a[1, 0] + a[1, 1]
    s2 = s1 - a[0, 0]
    left = [a[0, 0], a[0, 1], s2, a[0, 0] - a[1, 0], s1, a[0, 1] - s2, a[1, 1]]
    p = [one * other for one, other in zip(left, right_sums(b), strict=True)]
    u2 = p[0] + p[2]
    got = [[p[0] + p[1], u2 + p[4] + p[5]], [u2 + p[3] - p[6], u2 + p[3] + p[4]]]
    np.testing.assert_allclose(got, a @ b)
