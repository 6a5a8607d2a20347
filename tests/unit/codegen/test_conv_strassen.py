"""Pointwise convolution by Strassen's algorithm against the reference in float64, on every instruction set."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from tests.kernel_runner import lower_graph
from tests.unit.codegen.conv_case import TAILS, Case

from weft.codegen import target as targets
from weft.dtypes import f64
from weft.graph.graph import Graph
from weft.graph.layout import Blocked
from weft.passes.lower import conv_strassen
from weft.passes.lower.conv_shape import ConvShape
from weft.passes.lower.conv_strassen_cut import SIDES, Cut, choose_cut, cuts
from weft.passes.lower.conv_strassen_weights import right_sums
from weft.plan.target import Target

LIMIT = 1e-5
"""The relative L2 error that a layer may have."""


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


def shape_of(case: Case) -> ConvShape:
    """The numbers of the convolution of `case`."""
    strides = case.strides[0], case.strides[1]
    return ConvShape(
        images=case.images,
        channels=case.channels,
        size=(case.size[0], case.size[1]),
        outputs=case.outputs,
        out_size=((case.size[0] - 1) // strides[0] + 1, (case.size[1] - 1) // strides[1] + 1),
        kernel=(1, 1),
        strides=strides,
        dilations=(1, 1),
        pads=(0, 0),
        groups=1,
    )


def cuts_of_side(case: Case, target: Target, side: int) -> Iterator[Cut]:
    """The cuts of `case` into tiles of `side` pixels, one for each number of vectors."""
    seen: set[int] = set()
    for cut in cuts(shape_of(case), target):
        if cut.side == side and cut.group.vectors not in seen:
            seen.add(cut.group.vectors)
            yield cut


def check(case: Case, target: Target, cut: Cut, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel of `cut` agrees with float64 within LIMIT, and chunks in reverse order give the same bits."""
    monkeypatch.setattr(conv_strassen, "choose_cut", lambda shape, target: cut)
    expected = case.reference()
    result = case.run(target)
    error = np.linalg.norm(result - expected) / np.linalg.norm(expected)
    assert error < LIMIT, f"{cut}: relative error {error:.2e}"
    assert np.array_equal(result, case.run(target, reverse_chunks=True)), "the order of chunks changed the result"


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("name", SHAPES)
def test_shapes(name: str, side: int, target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles and parts that reach beyond the output are computed as if there were zeros, and not stored."""
    first, *_ = cuts_of_side(SHAPES[name], target, side)
    check(SHAPES[name], target, first, monkeypatch)


@pytest.mark.parametrize("side", SIDES)
def test_cuts(side: int, target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every number of vectors gives the same convolution."""
    case = pointwise(64, 272, (7, 9), images=2)
    for cut in cuts_of_side(case, target, side):
        check(case, target, cut, monkeypatch)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("tail", ["", *TAILS])
def test_tails(tail: str, bias: bool, target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tails are applied to whole tiles and to those at the border of the output."""
    case = replace(pointwise(64, 88, (5, 5)), tail=tail, bias=bias)
    for side in SIDES:
        first, *_ = cuts_of_side(case, target, side)
        check(case, target, first, monkeypatch)


LAYERS = {
    "256 to 512 channels": pointwise(256, 512, (28, 28)),
    "512 to 256 channels": pointwise(512, 256, (28, 28)),
    "1024 to 256 channels": pointwise(1024, 256, (14, 14)),
    "every second pixel": pointwise(256, 512, (28, 28), strides=(2, 2)),
}


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("name", LAYERS)
def test_error_of_real_layers(name: str, side: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Layers as networks have them stay far below the limit, with both sizes of tiles."""
    target = targets.detect()
    case = LAYERS[name]
    first, *_ = cuts_of_side(case, target, side)
    monkeypatch.setattr(conv_strassen, "choose_cut", lambda shape, target: first)
    expected = case.reference()
    result = case.run(target)
    assert np.linalg.norm(result - expected) / np.linalg.norm(expected) < LIMIT / 2


def families(case: Case, math: str, target: Target) -> list[str]:
    """The kernels that the convolution of `case` is lowered to."""
    graph = Graph()
    x, w, _ = case.arrays()
    value = graph.input("x", case.dtype, x.shape)
    out = graph.value("out", case.dtype, (case.images, case.outputs, *shape_of(case).out_size))
    value.layout = out.layout = Blocked(target.lanes(case.dtype))
    graph.add("conv", [value, graph.constant(w, "w")], case.attrs, outputs=[out])
    graph.outputs = [out]
    calls, _ = lower_graph(graph, target, math)
    return [call.spec.family for call in calls if call.spec is not None]


def test_exact_math_never_takes_it(target: Target) -> None:
    """Sums of sums round differently from sums of products: math="exact" keeps to the latter, and so does fp64."""
    case = pointwise(256, 256, (56, 56))
    assert choose_cut(shape_of(case), target) is not None, "the layer should gain from it"
    assert families(case, "fast", target) == ["conv_strassen"]
    assert families(case, "exact", target) == ["conv"]
    assert families(replace(case, dtype=f64), "fast", target) == ["conv"]


@pytest.mark.parametrize(
    "case",
    [
        pointwise(256, 256, (1, 1)),
        pointwise(64, 64, (56, 56)),
        pointwise(512, 2048, (7, 7)),
        pointwise(250, 256, (56, 56)),
    ],
    ids=["one pixel", "few channels", "weights that outweigh the pixels", "channels that make no parts"],
)
def test_not_taken_where_it_does_not_pay(case: Case) -> None:
    """Layers with too little to save keep direct convolution."""
    assert families(case, "fast", targets.detect()) == ["conv"]


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
