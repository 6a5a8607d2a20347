"""Convolutions of open sizes: one plan, made while loading, is right for all sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import treadle
from tests.models.test_open_ops import EVEN, Case, whole
from treadle.codegen.target import detect
from treadle.frontends.onnx import load
from treadle.ops.evaluate import evaluate

Array = np.ndarray[Any, Any]

SIZES = [
    *({"b": 1, "h": 9 - side, "w": side} for side in range(1, 9)),
    {"b": 3, "h": 1, "w": 1},
    {"b": 2, "h": 5, "w": 13},
    {"b": 1, "h": 7, "w": 14},
    {"b": 1, "h": 8, "w": 17},
    {"b": 1, "h": 11, "w": 28},
    {"b": 1, "h": 3, "w": 31},
    {"b": 2, "h": 30, "w": 56},
    {"b": 1, "h": 70, "w": 101},
]
"""Images smaller than kernels and register blocks, of all widths around one, and of many."""


@pytest.fixture(autouse=True)
def _nothing_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions compile their model themselves: with this knob they neither read nor write compiled models."""
    monkeypatch.setenv("TREADLE_DEBUG", "1")


def weights(*shape: int) -> Array:
    """Returns seeded weights."""
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def least(kernel: Sequence[int], pads: Sequence[int], dilations: Sequence[int]) -> list[dict[str, int]]:
    """Returns the SIZES at which a kernel fits into the padded image."""
    axes = ("h", "w") if len(kernel) == 2 else ("w",)
    reach = [(taps - 1) * step + 1 for taps, step in zip(kernel, dilations, strict=True)]
    room = [size - before - after for size, before, after in zip(reach, pads, pads[len(axes) :], strict=False)]
    return [sizes for sizes in SIZES if all(sizes[axis] >= need for axis, need in zip(axes, room, strict=True))]


def conv(
    channels: int,
    outputs: int,
    *kernel: int,
    pads: Sequence[int] = (),
    strides: Sequence[int] = (),
    dilations: Sequence[int] = (),
    groups: int = 1,
    after: Sequence[onnx.NodeProto] = (),
    inputs: Mapping[str, Sequence[int | str]] | None = None,
) -> Case:
    """Returns a convolution with a bias, and the nodes `after` it, which read its result `c`."""
    rank = len(kernel)
    pads, dilations = pads or (0,) * 2 * rank, dilations or (1,) * rank
    node = helper.make_node(
        "Conv", ["x", "w0", "b0"], ["c" if after else "y"], pads=list(pads), strides=list(strides or (1,) * rank),
        dilations=list(dilations), group=groups,
    )  # fmt: skip
    image: list[int | str] = ["b", channels, "h", "w"] if rank == 2 else ["b", channels, "w"]
    constants = {"w0": weights(outputs, channels // groups, *kernel), "b0": weights(outputs)}
    sizes = least(kernel, pads, dilations)
    return Case([node, *after], {"x": image, **(inputs or {})}, constants, sizes=sizes)


RELU = [helper.make_node("Relu", ["c"], ["y"])]
RESIDUAL = [helper.make_node("Add", ["c", "x"], ["sum"]), helper.make_node("Relu", ["sum"], ["y"])]
SILU = [helper.make_node("Sigmoid", ["c"], ["s"]), helper.make_node("Mul", ["c", "s"], ["y"])]
GATED = [helper.make_node("Mul", ["c", "gate"], ["y"])]
GATE: dict[str, list[int | str]] = {"gate": ["b", 64, 1, 1]}

CASES: dict[str, Case] = {
    "1x1": conv(24, 64, 1, 1),
    "1x1 of all widths of blocks": conv(16, 16, 1, 1, after=SILU),
    "1x1 stride 2": conv(32, 40, 1, 1, strides=(2, 2)),
    "3x3": conv(32, 64, 3, 3),
    "3x3 padded": conv(32, 64, 3, 3, pads=(1, 1, 1, 1), after=RELU),
    "3x3 padded on the left": conv(16, 32, 3, 3, pads=(0, 1, 0, 0)),
    "3x3 padded on the right": conv(16, 32, 3, 3, pads=(0, 0, 1, 2)),
    "3x3 stride 2": conv(16, 48, 3, 3, pads=(1, 1, 1, 1), strides=(2, 2)),
    "3x3 stride 2 unpadded": conv(16, 20, 3, 3, strides=(2, 2)),
    "3x3 dilated": conv(16, 32, 3, 3, pads=(2, 2, 2, 2), dilations=(2, 2)),
    "3x3 dilated beyond small images": conv(32, 64, 3, 3, pads=(60,) * 4, dilations=(60, 60), after=SILU),
    "3x3 dilated with a residual": conv(64, 64, 3, 3, pads=(90,) * 4, dilations=(90, 90), after=RESIDUAL),
    "dilated and strided": conv(16, 32, 1, 4, pads=(0, 95, 0, 91), dilations=(1, 62), strides=(1, 2)),
    "dilated rows": conv(16, 32, 7, pads=(180, 180), dilations=(60,), after=RELU),
    "5x5": conv(16, 16, 5, 5, pads=(2, 2, 2, 2), after=SILU),
    "5x5 stride 3": conv(16, 32, 5, 5, pads=(2, 2, 2, 2), strides=(3, 3)),
    "7x7 stem": conv(3, 64, 7, 7, pads=(3, 3, 3, 3), strides=(2, 2), after=RELU),
    "rows": conv(16, 32, 1, 5, pads=(0, 2, 0, 2)),
    "columns": conv(16, 32, 5, 1, pads=(2, 0, 2, 0)),
    "wide padding": conv(16, 16, 3, 3, pads=(20, 20, 20, 20)),
    "padding wider than blocks": conv(16, 16, 3, 3, pads=(40, 40, 40, 40)),
    "groups": conv(64, 128, 3, 3, pads=(1, 1, 1, 1), groups=4),
    "odd groups": conv(15, 30, 3, 3, pads=(1, 1, 1, 1), groups=3),
    "one dimension": conv(16, 32, 3, pads=(1, 1), after=RELU),
    "one dimension, stride 2": conv(2, 32, 10, strides=(5,)),
    "many channels": conv(600, 64, 3, 3, pads=(1, 1, 1, 1)),
    "residual": conv(64, 64, 3, 3, pads=(1, 1, 1, 1), after=RESIDUAL),
    "residual of pixels": conv(64, 64, 1, 1, after=RESIDUAL),
    "padding wider than several blocks": replace(conv(16, 16, 3, 3, pads=(100, 100, 100, 100)), sizes=SIZES[:-2]),
    "depthwise 1x1": conv(40, 40, 1, 1, groups=40),
    "depthwise 3x3": conv(40, 40, 3, 3, groups=40),
    "depthwise 3x3 padded": conv(32, 32, 3, 3, pads=(1, 1, 1, 1), groups=32, after=RELU),
    "depthwise 3x3 padded on the right": conv(16, 16, 3, 3, pads=(0, 0, 2, 2), groups=16),
    "depthwise 3x3 stride 2": conv(16, 16, 3, 3, pads=(1, 1, 1, 1), strides=(2, 2), groups=16, after=SILU),
    "depthwise 3x3 stride 2, 1": conv(16, 16, 3, 3, pads=(1, 1, 1, 1), strides=(2, 1), groups=16),
    "depthwise 3x3 dilated": conv(16, 16, 3, 3, pads=(2, 2, 2, 2), dilations=(2, 2), groups=16),
    "depthwise 5x5": conv(24, 24, 5, 5, pads=(2, 2, 2, 2), groups=24),
    "depthwise 5x5 stride 3": conv(16, 16, 5, 5, pads=(2, 2, 2, 2), strides=(3, 3), groups=16),
    "depthwise 7x7": conv(16, 16, 7, 7, pads=(3, 3, 3, 3), groups=16),
    "depthwise 9x9 stride 2": conv(16, 16, 9, 9, pads=(4, 4, 4, 4), strides=(2, 2), groups=16),
    "depthwise with a residual": conv(64, 64, 3, 3, pads=(1, 1, 1, 1), groups=64, after=RESIDUAL),
    "depthwise, gated": conv(64, 64, 3, 3, pads=(1, 1, 1, 1), groups=64, after=GATED, inputs=GATE),
    "depthwise of one dimension": conv(32, 32, 31, pads=(15, 15), groups=32),
    "depthwise, causal": conv(16, 16, 4, pads=(3, 0), groups=16),
    "depthwise, wide padding": conv(16, 16, 3, 3, pads=(20, 20, 20, 20), groups=16),
    "groups of 4 channels": conv(32, 32, 3, 3, pads=(1, 1, 1, 1), groups=8, after=RELU),
    "groups of 8 channels, stride 2": conv(64, 64, 3, 3, pads=(1, 1, 1, 1), strides=(2, 2), groups=8),
    "groups of 3 channels": conv(15, 15, 3, 3, pads=(1, 1, 1, 1), groups=5),
    "groups of 4 channels to 8": conv(32, 64, 3, 3, pads=(1, 1, 1, 1), groups=8),
    "groups of 2 channels, long kernel": conv(32, 32, 128, pads=(64, 64), groups=16),
    "gated": conv(16, 64, 3, 3, pads=(1, 1, 1, 1), after=GATED, inputs=GATE),
}


def transposed() -> Case:
    """Returns a transposed convolution, which becomes a convolution and a shuffle."""
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[2, 2], pads=[1, 1, 1, 1])
    return Case([node], {"x": ["b", 16, "h", "w"]}, {"w": weights(16, 8, 4, 4)}, sizes=SIZES)


def network() -> Case:
    """Returns a stem, two residual blocks and a head of classes."""
    nodes, constants = [], {}

    def add(x: str, y: str, w: Array, stride: int = 1) -> None:
        pad, name = w.shape[-1] // 2, f"{y}.w"
        constants[name] = w * 0.1
        nodes.append(helper.make_node("Conv", [x, name], [y], pads=[pad] * 4, strides=[stride] * 2))

    add("x", "stem", weights(32, 3, 7, 7), 2)
    nodes.append(helper.make_node("Relu", ["stem"], ["a"]))
    for turn, (source, out) in enumerate([("a", "d"), ("d", "g")]):
        add(source, f"n{turn}", weights(16, 32, 1, 1))
        nodes.append(helper.make_node("Relu", [f"n{turn}"], [f"m{turn}"]))
        add(f"m{turn}", f"k{turn}", weights(32, 16, 3, 3))
        nodes.append(helper.make_node("Add", [source, f"k{turn}"], [out]))
    add("g", "e", weights(64, 32, 3, 3), 2)
    nodes.append(helper.make_node("GlobalAveragePool", ["e"], ["y"]))
    return Case(nodes, {"x": ["b", 3, "h", "w"]}, constants, sizes=SIZES)


def same(channels: int, outputs: int, auto_pad: str, *, groups: int = 1, stride: int = 2, size: int = 3) -> Case:
    """Returns a convolution padded so that it has ceil(size / stride) results, and one behind it."""
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["a"], strides=[stride] * 2, auto_pad=auto_pad, group=groups),
        helper.make_node("Relu", ["a"], ["c"]),
        helper.make_node("Conv", ["c", "w1"], ["y"], auto_pad=auto_pad),
    ]
    constants = {"w0": weights(outputs, channels // groups, size, size), "w1": weights(16, outputs, 3, 3)}
    return Case(nodes, {"x": ["b", channels, "h", "w"]}, constants, sizes=SIZES)


def pyramid(**modes: str) -> Case:
    """Returns a level of features to which the level of half its size is added."""
    constants = {
        "w0": weights(24, 3, 1, 1), "w1": weights(24, 24, 3, 3) * 0.1, "w2": weights(8, 24, 1, 1),
        "scales": np.array([1, 1, 2, 2], np.float32),
    }  # fmt: skip
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["fine"]),
        helper.make_node("Conv", ["fine", "w1"], ["half"], strides=[2, 2], pads=[1, 1, 1, 1]),
        helper.make_node("Resize", ["half", "", "scales"], ["x2"], **modes),
        helper.make_node("Add", ["fine", "x2"], ["sum"]),
        helper.make_node("Conv", ["sum", "w2"], ["y"]),
    ]
    return Case(nodes, {"x": ["b", 3, "h", "w"]}, constants, sizes=EVEN)


def few_outputs(outputs: int, *, stride: int = 1, size: int = 3, pad: int = 1) -> Case:
    """Returns a convolution to `outputs` channels behind one of blocks, as detectors of text end."""
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["a"], pads=[1] * 4),
        helper.make_node("Conv", ["a", "w1", "b1"], ["c"], pads=[pad] * 4, strides=[stride] * 2),
        helper.make_node("Sigmoid", ["c"], ["s"]),
        helper.make_node("Mul", ["s", "scale"], ["y"]),
    ]
    constants = {"w0": weights(40, 3, 3, 3), "w1": weights(outputs, 40, size, size), "b1": weights(outputs)}
    constants["scale"] = weights(outputs, 1, 1)
    return Case(nodes, {"x": ["b", 3, "h", "w"]}, constants, sizes=least((size,) * 2, (pad,) * 4, (1, 1)))


CASES |= {
    "few outputs": few_outputs(1),
    "few outputs, stride 2": few_outputs(2, stride=2, size=5, pad=2),
    "few outputs, no padding": few_outputs(4, size=1, pad=0),
    "transposed": transposed(),
    "network": network(),
    "pyramid": pyramid(mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
    "same, stem": same(3, 32, "SAME_UPPER"),
    "same, pads first": same(16, 32, "SAME_LOWER", size=4),
    "same, stride 3": same(16, 24, "SAME_UPPER", stride=3, size=5),
    "same of groups": same(32, 32, "SAME_UPPER", groups=32),
    "smooth pyramid": pyramid(mode="linear"),
}


def reference(case: Case, sizes: Mapping[str, int], feeds: Mapping[str, Array]) -> Array:
    """Returns the output that NumPy computes, which takes a tenth of the time that compiling for `sizes` takes."""
    return evaluate(load(case.model(sizes)), feeds)["y"]


ROUNDING = 2e-5
"""How far results may be from those of the reference, or of an algorithm that rounds differently."""


def check(case: Case, *, tolerance: float = ROUNDING, fixed: int = 0, **options: Any) -> None:
    """Asserts that one plan is right for all sizes, with the same bits at 1, 2 and 4 threads.

    Args:
        case: The convolution.
        tolerance: How far its results may be from those that are wanted.
        fixed: At every so many of the sizes, if not 0, what a session of these sizes gives is wanted; at others what
            the reference gives, up to ROUNDING. If 0, what the reference gives is wanted at all sizes.
        options: Of the sessions.
    """
    session = treadle.Session(case.model(), **options)
    assert session.why_per_size() is None
    compiles = session.compiles
    for number, sizes in enumerate(case.sizes):
        feeds = case.feeds(sizes)
        found, *shared = (session.run(feeds, intra_op=threads)["y"] for threads in (1, 2, 4))
        for other in shared:
            np.testing.assert_array_equal(other, found)
        if fixed and number % fixed == 0:
            wanted, within = treadle.Session(case.model(sizes), **options).run(feeds)["y"], tolerance
        else:
            wanted, within = reference(case, sizes, feeds), max(tolerance, ROUNDING) if fixed else tolerance
        scale = float(np.abs(wanted).max()) + 1.0
        np.testing.assert_allclose(found, wanted, rtol=within, atol=within * scale, err_msg=str(sizes))
    assert session.compiles == compiles, [plan.guards for plan in session.open_plans()]


@pytest.mark.parametrize("name", CASES)
def test_one_plan_convolves_images_of_all_sizes(name: str) -> None:
    """Depthwise convolutions have the bits of fixed sizes; others may use an algorithm that rounds differently."""
    depthwise = name.startswith("depthwise")
    check(CASES[name], tolerance=0.0 if depthwise else ROUNDING, fixed=3 if depthwise else 0)


BF16_TOLERANCE = 1e-2

BF16 = ["1x1", "3x3 padded", "3x3 stride 2", "7x7 stem", "groups", "rows", "residual", "network", "depthwise 5x5"]


@pytest.mark.parametrize("name", [*BF16, "groups of 4 channels"])
def test_one_plan_convolves_bf16(name: str) -> None:
    """Where the CPU multiplies bf16; elsewhere precision="bf16" changes nothing."""
    check(CASES[name], tolerance=BF16_TOLERANCE, fixed=int(detect().has_bf16_dot), precision="bf16")


def quantized(pad: int, stride: int, zero: int, groups: int = 1) -> Case:
    """Returns a convolution of bytes whose zero point is not 0; with `groups`, one of 16 outputs."""
    rng = np.random.default_rng(3)
    dtype = np.uint8 if zero >= 0 else np.int8
    node = helper.make_node(
        "ConvInteger", ["x", "w", "zero"], ["y"], pads=[pad] * 4, strides=[stride] * 2, kernel_shape=[3, 3],
        group=groups,
    )  # fmt: skip
    shape = (40 if groups == 1 else 16, 16 // groups, 3, 3)
    constants = {"w": rng.integers(-127, 128, shape).astype(np.int8), "zero": np.array(zero, dtype)}
    limits = np.iinfo(dtype)
    draws = {"x": whole(limits.min, limits.max + 1, dtype)}
    sizes = least((3, 3), (pad,) * 4, (1, 1))
    return Case([node], {"x": ["b", 16, "h", "w"]}, constants, draws=draws, sizes=sizes)


@pytest.mark.parametrize(("pad", "stride", "zero"), [(0, 1, 7), (1, 1, 0), (1, 1, 131), (1, 2, -5), (2, 3, 200)])
def test_one_plan_convolves_bytes(pad: int, stride: int, zero: int) -> None:
    """Sums are exact, and padding is the zero point."""
    check(quantized(pad, stride, zero), tolerance=0.0)


@pytest.mark.parametrize("groups", [4, 16])
@pytest.mark.parametrize(("pad", "stride", "zero"), [(1, 1, 131), (1, 2, -5)])
def test_one_plan_convolves_bytes_of_few_channels(pad: int, stride: int, zero: int, groups: int) -> None:
    """Sums are exact."""
    check(quantized(pad, stride, zero, groups), tolerance=0.0)
