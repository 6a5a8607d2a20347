"""Pools of open sizes: one plan, made while loading, gives the results of fixed sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

import treadle
from tests.models.test_open_convolutions import BF16_TOLERANCE, SIZES, check, weights
from tests.models.test_open_ops import Case, Draw, whole
from treadle.codegen.target import detect

OPS = {
    "max": ("MaxPool", {}),
    "mean": ("AveragePool", {}),
    "mean with pads": ("AveragePool", {"count_include_pad": 1}),
}

WINDOWS: dict[str, dict[str, Any]] = {
    "2x2, stride 2": {"kernel_shape": [2, 2], "strides": [2, 2]},
    "2x2, stride 2, partial windows": {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1},
    "3x3, stride 2, padded": {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]},
    "3x3, partial windows": {"kernel_shape": [3, 3], "strides": [2, 3], "pads": [0, 1, 1, 0], "ceil_mode": 1},
    "3x3, stride 1, padded": {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]},
    "2x1, stride 2, 1": {"kernel_shape": [2, 1], "strides": [2, 1]},
    "2x2, stride 1, uneven pads": {"kernel_shape": [2, 2], "pads": [0, 1, 1, 0]},
    "5x5 pyramid": {"kernel_shape": [5, 5], "pads": [2, 2, 2, 2]},
    "dilated": {"kernel_shape": [2, 3], "dilations": [3, 2], "pads": [0, 2, 0, 1]},
    "wider than unrolled": {"kernel_shape": [1, 11], "pads": [0, 5, 0, 5]},
    "stride past shuffles": {"kernel_shape": [3, 2], "strides": [5, 7]},
    "3x3, stride 2, as many results as strides": {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"},
    "4x5, stride 3, pads first": {"kernel_shape": [4, 5], "strides": [3, 3], "auto_pad": "SAME_LOWER"},
    "one dimension": {"kernel_shape": [3], "strides": [2], "pads": [1, 1]},
}
"""Attributes of pools."""

LONG_ROWS = {"b": 1, "h": 13, "w": 2500}
"""Row-major rows are pooled in segments."""


@pytest.fixture(autouse=True)
def _nothing_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions compile their model themselves: with this knob they neither read nor write compiled models."""
    monkeypatch.setenv("TREADLE_DEBUG", "1")


def fitting(window: dict[str, Any]) -> list[dict[str, int]]:
    """Returns those of SIZES and LONG_ROWS at which the window fits into the padded image."""
    kernel = window["kernel_shape"]
    if "auto_pad" in window:
        return [*SIZES, LONG_ROWS]
    rank = len(kernel)
    pads, dilations = window.get("pads", [0] * 2 * rank), window.get("dilations", [1] * rank)
    need = [
        (taps - 1) * step + 1 - before - after
        for taps, step, before, after in zip(kernel, dilations, pads[:rank], pads[rank:], strict=True)
    ]
    axes = ("h", "w") if rank == 2 else ("w",)
    return [
        each for each in [*SIZES, LONG_ROWS] if all(each[axis] >= least for axis, least in zip(axes, need, strict=True))
    ]


def pool(op: str, window: dict[str, Any], channels: int = 3, draws: dict[str, Draw] | None = None) -> Case:
    """Returns one pool of row-major images."""
    name, attrs = OPS[op]
    node = helper.make_node(name, ["x"], ["y"], **window, **attrs)
    image = ["b", channels, "h", "w"] if len(window["kernel_shape"]) == 2 else ["b", channels, "w"]
    return Case([node], {"x": image}, draws=draws or {}, sizes=fitting(window))


def behind(op: str, window: dict[str, Any], channels: int = 40) -> Case:
    """Returns a pool between convolutions, whose channels are in blocks."""
    name, attrs = OPS[op]
    rank = len(window["kernel_shape"])
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["a"]),
        helper.make_node("Relu", ["a"], ["c"]),
        helper.make_node(name, ["c"], ["d"], **window, **attrs),
        helper.make_node("Conv", ["d", "w1"], ["y"]),
    ]
    ones = (1,) * rank
    constants = {"w0": weights(channels, 3, *ones), "w1": weights(8, channels, *ones)}
    image = ["b", 3, "h", "w"] if rank == 2 else ["b", 3, "w"]
    return Case(nodes, {"x": image}, constants, sizes=fitting(window))


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("op", OPS)
def test_one_plan_pools_images_of_all_sizes(op: str, window: str) -> None:
    """Kernels, and so the bits, are those of fixed sizes."""
    check(pool(op, WINDOWS[window]), tolerance=0.0, fixed=3)


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("op", OPS)
def test_one_plan_pools_blocks_of_channels(op: str, window: str) -> None:
    """Pools between convolutions read and write blocks."""
    check(behind(op, WINDOWS[window]), tolerance=2e-5)


@pytest.mark.parametrize("op", OPS)
def test_one_plan_pools_bf16(op: str) -> None:
    """Where the CPU multiplies bf16; elsewhere precision="bf16" changes nothing."""
    check(
        behind(op, WINDOWS["3x3, stride 2, padded"]),
        tolerance=BF16_TOLERANCE,
        fixed=int(detect().has_bf16_dot),
        precision="bf16",
    )


@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.int8, np.uint8])
def test_one_plan_pools_other_dtypes(dtype: type) -> None:
    """Bytes, halves and doubles have a kernel, a cast or the reference."""
    check(pool("max", WINDOWS["3x3, stride 2, padded"], draws={"x": whole(0, 100, dtype)}), tolerance=0.0, fixed=1)


@pytest.mark.parametrize("op", ["GlobalAveragePool", "GlobalMaxPool"])
@pytest.mark.parametrize("blocks", [False, True])
def test_one_plan_pools_whole_images(op: str, blocks: bool) -> None:
    """Whole images are reduced in chunks that sizes decide."""
    nodes = [helper.make_node("Conv", ["x", "w0"], ["c"])] if blocks else []
    nodes.append(helper.make_node(op, ["c" if blocks else "x"], ["y"]))
    constants = {"w0": weights(24, 3, 1, 1)} if blocks else {}
    check(Case(nodes, {"x": ["b", 3, "h", "w"]}, constants, sizes=SIZES), tolerance=2e-5)


def test_a_volume_is_pooled_by_the_reference() -> None:
    """Three spatial axes have no kernel; the plan serves all sizes nevertheless."""
    node = helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2, 2], strides=[2, 2, 2])
    sizes = [each for each in SIZES if min(each["h"], each["w"]) > 1]
    check(Case([node], {"x": ["b", 2, "h", "w", 6]}, sizes=sizes), tolerance=0.0, fixed=1)


def test_a_window_that_does_not_fit_is_named() -> None:
    """An image smaller than the window is refused by a typed error that names the node."""
    session = treadle.Session(pool("max", WINDOWS["2x2, stride 2"]).model())
    with pytest.raises(treadle.errors.ShapeError, match="MaxPool"):
        session.run({"x": np.zeros((1, 3, 1, 8), np.float32)})
