"""Winograd convolution against the reference in float64, on every instruction set."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.kernel_runner import lower_graph
from tests.machines import MACHINES
from tests.unit.codegen.conv.conv_case import EPILOGUES, FAST_LIMIT, Case

from treadle.codegen import target as targets
from treadle.dtypes import f64
from treadle.passes.lower.base import LowerContext
from treadle.passes.lower.conv.winograd import lower
from treadle.passes.lower.conv.winograd.cost import choose_tiling, tilings
from treadle.passes.lower.conv.winograd.tiling import ALGORITHMS, Tiling
from treadle.passes.lower.conv.winograd.weights import kernel_transform
from treadle.plan.kernels.conv.winograd import Points, WinogradConvSpec
from treadle.plan.machine import FOLDER
from treadle.plan.target import Target

SAME = (1, 1, 1, 1)
F2, F4_F2, F4 = ALGORITHMS[(3, 3), (1, 1)]
STRIDED_F2, STRIDED_F3, STRIDED_F4 = ALGORITHMS[(3, 3), (2, 2)]


def winograd(
    channels: int,
    outputs: int,
    size: tuple[int, int],
    pads: tuple[int, ...] = SAME,
    images: int = 1,
    kernel: tuple[int, int] = (3, 3),
    strides: tuple[int, int] = (1, 1),
) -> Case:
    """A convolution that may be done by Winograd's algorithm."""
    return Case(channels, outputs, size, kernel, strides, pads=pads, images=images, math="fast")


SHAPES = {
    "whole tiles": winograd(32, 32, (8, 8)),
    "rows and columns beyond the last tile": winograd(32, 48, (7, 9)),
    "one more row and column than a tile": winograd(16, 16, (5, 5)),
    "no padding": winograd(16, 32, (9, 12), pads=(0, 0, 0, 0)),
    "padding on single sides": winograd(16, 16, (6, 7), pads=(1, 0, 0, 2)),
    "wide padding": winograd(16, 16, (5, 6), pads=(3, 2, 3, 2)),
    "spare lanes of inputs and outputs": winograd(19, 21, (10, 10)),
    "fewer channels than a vector": winograd(3, 5, (8, 8)),
    "outputs that do not fill the last group": winograd(16, 80, (8, 8)),
    "several images, tiles of two in one group": winograd(24, 40, (6, 7), images=3),
    "one pixel": winograd(16, 16, (1, 1)),
    "one image row": winograd(16, 16, (1, 40)),
    "many tiles": winograd(16, 16, (40, 37)),
}


def tilings_of_points(case: Case, target: Target, points: tuple[Points, Points]) -> Iterator[Tiling]:
    """The tilings of `case` with these points, a few of each kind."""
    found = [tiling for tiling in tilings(case.shape(target), target) if tiling.points == points]
    assert found, f"no tiling of {points}"
    seen: set[tuple[bool, bool, int]] = set()
    for tiling in found[::2] + found[1::2]:
        kind = tiling.fused, tiling.section_blocks > 0, tiling.group.vectors
        if kind not in seen:
            seen.add(kind)
            yield tiling


def check(case: Case, target: Target, tiling: Tiling, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asserts an error of the kernels of `tiling` below FAST_LIMIT, and that the order of chunks changes no bit."""
    monkeypatch.setattr(lower, "choose_tiling", lambda shape, target, streamed, bf16_dot: tiling)
    case.check_error(target, FAST_LIMIT, tiling)


@pytest.mark.parametrize("points", [F2, F4], ids=["F2", "F4"])
@pytest.mark.parametrize("name", SHAPES)
def test_shapes(name: str, points: tuple[Points, Points], target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles that reach beyond the input or the output are computed as if it were padded."""
    first, *_ = tilings_of_points(SHAPES[name], target, points)
    check(SHAPES[name], target, first, monkeypatch)


@pytest.mark.parametrize(
    ("points", "name"),
    [
        (STRIDED_F2, "whole tiles"),
        (STRIDED_F2, "wide padding"),
        (STRIDED_F3, "padding on single sides"),
        (STRIDED_F3, "one pixel"),
        (STRIDED_F4, "rows and columns beyond the last tile"),
        (STRIDED_F4, "no padding"),
        (STRIDED_F4, "spare lanes of inputs and outputs"),
    ],
)
def test_shapes_with_stride_2(
    name: str, points: tuple[Points, Points], target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every second pixel of every second row, of inputs and outputs that tiles fill or reach beyond."""
    case = replace(SHAPES[name], strides=(2, 2))
    first, *_ = tilings_of_points(case, target, points)
    check(case, target, first, monkeypatch)


@pytest.mark.parametrize("points", [F2, F4], ids=["F2", "F4"])
def test_tilings(points: tuple[Points, Points], target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every kind of tiling computes the same convolution."""
    case = winograd(24, 72, (13, 14), images=2)
    for tiling in tilings_of_points(case, target, points):
        check(case, target, tiling, monkeypatch)


@pytest.mark.parametrize("points", [F2, F4_F2], ids=["F2", "F4 and F2"])
def test_tilings_with_the_weights_of_larger_tiles(
    points: tuple[Points, Points], target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Smaller tiles use some points of the weights of larger ones, whether the kernel transforms its tiles or not."""
    case = winograd(24, 72, (13, 14), images=2)
    kinds = set()
    for larger in tilings_of_points(case, target, F4):
        for tiling in tilings_of_points(case, target, points):
            sharing = tiling.with_weights_of(larger)
            if tiling.group.vectors != larger.group.vectors or tiling.section_blocks or larger.section_blocks:
                assert sharing is tiling
                continue
            assert sharing.weight_points == F4
            assert sharing.side == tiling.side
            kinds.add(tiling.fused)
            check(case, target, sharing, monkeypatch)
    assert kinds == {False, True}


def test_tilings_with_stride_2(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """Points that share weights use them whether the kernel transforms its tiles or another does."""
    case = winograd(24, 72, (25, 27), images=2, strides=(2, 2))
    for tiling in tilings_of_points(case, target, STRIDED_F2):
        check(case, target, tiling, monkeypatch)


@pytest.mark.parametrize(("kernel", "strides"), ALGORITHMS)
def test_kernels(
    kernel: tuple[int, int], strides: tuple[int, int], target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every kernel with an algorithm, square or along one axis, with each of its sets of points."""
    down, across = kernel
    pads = (down // 2, across // 2, down // 2, across // 2)
    case = winograd(20, 36, (9, 11), pads=pads, images=2, kernel=kernel, strides=strides)
    for points in ALGORITHMS[kernel, strides]:
        first, *_ = tilings_of_points(case, target, points)
        check(replace(case, epilogue="residual_relu"), target, first, monkeypatch)


@pytest.mark.parametrize(("kernel", "strides"), ALGORITHMS)
def test_kernels_that_transform_weights_themselves(
    kernel: tuple[int, int], strides: tuple[int, int], target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sections of input channels, the last one short, are as exact as weights transformed at compile time."""
    down, across = kernel
    pads = (down // 2, across // 2, down // 2, across // 2)
    case = winograd(52, 36, (9, 11), pads=pads, images=2, kernel=kernel, strides=strides)
    for points in ALGORITHMS[kernel, strides]:
        tiling = next(tiling for tiling in tilings_of_points(case, target, points) if tiling.section_blocks)
        for blocks in {1, 2, tiling.in_blocks}:
            check(replace(case, epilogue="residual_relu"), target, replace(tiling, section_blocks=blocks), monkeypatch)


@pytest.mark.parametrize("channels", [49, 50, 51])
def test_sections_of_channels_that_no_unrolling_divides(
    channels: int, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last section has one, two or three channels beyond those that are added up together."""
    case = winograd(channels, 36, (9, 11))
    tiling = next(tiling for tiling in tilings_of_points(case, target, F4) if tiling.section_blocks)
    for blocks in {1, 2, tiling.in_blocks}:
        check(case, target, replace(tiling, section_blocks=blocks), monkeypatch)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("epilogue", ["", *EPILOGUES])
def test_epilogues(epilogue: str, bias: bool, target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """Epilogues are applied to whole tiles and to those at the border of the output."""
    case = replace(SHAPES["rows and columns beyond the last tile"], epilogue=epilogue, bias=bias)
    first, *_ = tilings_of_points(case, target, F4)
    check(case, target, first, monkeypatch)


LAYERS = {
    "64 channels": winograd(64, 64, (56, 56)),
    "128 channels": winograd(128, 128, (28, 28)),
    "256 channels": winograd(256, 256, (14, 14)),
    "512 channels": winograd(512, 256, (8, 8)),
    "few channels": winograd(16, 64, (27, 27)),
    "1x7": winograd(192, 192, (17, 17), pads=(0, 3, 0, 3), kernel=(1, 7)),
    "7x1": winograd(192, 192, (17, 17), pads=(3, 0, 3, 0), kernel=(7, 1)),
    "1x3": winograd(384, 384, (8, 8), pads=(0, 1, 0, 1), kernel=(1, 3)),
    "5x5": winograd(48, 64, (35, 35), pads=(2, 2, 2, 2), kernel=(5, 5)),
    "128 channels, stride 2": winograd(128, 128, (56, 56), strides=(2, 2)),
    "256 channels, stride 2": winograd(256, 256, (28, 28), strides=(2, 2)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_error_of_real_layers(name: str) -> None:
    """The chosen kernel of layers as networks have them stays far below the limit."""
    target = targets.detect()
    case = LAYERS[name]
    assert choose_tiling(case.shape(target), target) is not None, "the layer should gain from Winograd"
    case.check_error(target, FAST_LIMIT / 2)


def test_exact_math_never_uses_it() -> None:
    """Winograd rounds differently from a sum of products: math="exact" keeps to sums, and so does fp64."""
    target, case = targets.detect(), winograd(64, 64, (28, 28))
    assert "conv_winograd" in case.families(target)
    assert replace(case, math="exact").families(target) == ["conv"]
    assert replace(case, dtype=f64).families(target) == ["conv"]


def test_streamed_weights_are_transformed_by_the_kernel() -> None:
    """Taps are a quarter of the transformed weights, so they are read if weights are streamed."""
    target = replace(MACHINES["avx512"].description(), l3=1 << 27)
    shape = winograd(256, 256, (14, 14)).shape(target)
    streamed, resident = (choose_tiling(shape, target, streamed=streamed) for streamed in (True, False))
    assert streamed is not None
    assert resident is not None
    assert streamed.section_blocks > 0
    assert resident.section_blocks == 0


def test_reading_weights_again_costs_more_where_l3_is_far(tmp_path: Path) -> None:
    """Each group of tiles reads all weights; a single group does not do so again, and L2 keeps few weights."""
    far = replace(MACHINES["avx512"].description(), l2=2 << 20, l3=260 << 20, model="emerald-rapids")
    file = tmp_path / "near.toml"
    figures = (FOLDER / "emerald-rapids.toml").read_text()
    file.write_text(re.sub(r"l3_latency_ns = \[[\d.]+", "l3_latency_ns = [15.0", figures))

    def rise(case: Case) -> float:
        """The cost of the first tiling whose weights are transformed, on the far machine over that on the near one."""
        costs = []
        for target in (replace(far, model=str(file)), far):
            first = next(each for each in tilings(case.shape(target), target) if each.fused and each.points == F4)
            costs.append(first.total_cost)
        return costs[1] / costs[0]

    assert rise(winograd(512, 512, (5, 85))) > 1.1
    assert rise(winograd(512, 512, (8, 8))) == 1
    assert rise(winograd(32, 32, (56, 56))) == 1


def test_weights_that_leave_l2_are_prefetched(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prefetching changes no result; weights that the kernel transforms have prefetches of their own."""
    case = replace(winograd(48, 48, (9, 11)), epilogue="residual_relu")
    small = replace(target, l1=1 << 12, l2=1 << 15, l3=1 << 15)
    for tiling in tilings_of_points(case, small, F4):
        check(case, small, tiling, monkeypatch)
        for machine, leaves in ((small, True), (replace(target, l2=1 << 25), False)):
            graph, _ = case.graph(machine)
            calls, _ = lower_graph(graph, machine, case.math)
            (spec,) = [call.spec for call in calls if isinstance(call.spec, WinogradConvSpec)]
            assert (spec.ahead > 0) == (leaves and not tiling.section_blocks)


@pytest.mark.parametrize(("channels", "streamed"), [(48, False), (64, True)])
def test_weights_are_streamed_if_they_fill_half_of_the_last_cache(channels: int, streamed: bool) -> None:
    """Constants count with the size that the model gives them."""
    target = replace(targets.detect(), l2=1 << 16, model="", digest="", l3=2 * 56 * 64 * 9 * 4)
    graph, _ = winograd(channels, 64, (8, 8)).graph(target)
    assert LowerContext(graph, target).streamed_weights == streamed


def test_not_used_where_it_is_slower() -> None:
    """A convolution of one pixel is faster as a sum of products."""
    assert winograd(64, 64, (1, 1)).families(targets.detect()) == ["conv"]


@pytest.mark.parametrize(("kernel", "strides"), ALGORITHMS)
def test_the_transforms_of_kernels_interpolate(kernel: tuple[int, int], strides: tuple[int, int]) -> None:
    """The rows of the kernel's transform evaluate it at the points, up to each row's factor."""
    for points, taps in (
        (axis, n) for pair in ALGORITHMS[kernel, strides] for axis, n in zip(pair, kernel, strict=True)
    ):
        matrix = kernel_transform(points, taps, strides[0])
        if not points:
            assert matrix.tolist() == [[1.0]]
        elif strides[0] == 2:
            assert matrix.shape == (len(points) + 3, 3)
            np.testing.assert_allclose(matrix[1:-2, 2] / matrix[1:-2, 0], points)
            assert matrix[-2:].tolist() == [[0.0, 0.0, 1.0], [0.0, 1.0, 0.0]]
        else:
            assert matrix.shape == (2 * len(points) + 2, taps)
            np.testing.assert_allclose(matrix[1:-1, 2] / matrix[1:-1, 0], [p * p for p in points for _ in range(2)])
            assert matrix[-1].tolist() == [0.0] * (taps - 1) + [1.0]
