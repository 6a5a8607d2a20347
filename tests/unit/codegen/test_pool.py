"""max_pool and avg_pool kernels against their references."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from tests.single_node import SingleNode, blocked

from treadle.dtypes import bf16
from treadle.graph.layout import Blocked
from treadle.plan.target import Target

_WINDOWS: dict[str, dict[str, Any]] = {
    "3x3 stride 2 pad 1": {"kernel": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 1)},
    "2x2 stride 2": {"kernel": (2, 2), "strides": (2, 2)},
    "3x3 stride 1 pad 1": {"kernel": (3, 3), "pads": (1, 1, 1, 1)},
    "2x5 dilated, uneven pads": {"kernel": (2, 5), "dilations": (3, 2), "pads": (0, 4, 2, 1)},
    "wider than unrolled": {"kernel": (1, 11), "pads": (0, 5, 0, 5)},
    "stride past shuffles": {"kernel": (3, 2), "strides": (5, 7)},
    "partial windows": {"kernel": (3, 3), "strides": (2, 3), "pads": (0, 1, 1, 0), "ceil_mode": True},
    "whole image": {"kernel": (13, 37)},
    "far larger than the image": {"kernel": (30, 80), "pads": (30, 40, 30, 49), "dilations": (2, 1)},
    "mostly before the image": {"kernel": (40, 60), "strides": (4, 50), "pads": (39, 59, 3, 5)},
}


def _attrs(window: dict[str, Any], **more: Any) -> dict[str, Any]:
    rank = len(window["kernel"])
    usual = {"strides": (1,) * rank, "pads": (0,) * 2 * rank, "dilations": (1,) * rank, "ceil_mode": False}
    return {**usual, **window, **more}


def _image(*shape: int, dtype: type = np.float32) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).standard_normal(shape).astype(dtype)


_LAYOUTS_AND_WINDOWS = list(product(["plain", "blocked"], _WINDOWS))


@pytest.mark.parametrize(
    ("dtype", "layout", "name"),
    [
        *((np.float32, *each) for each in _LAYOUTS_AND_WINDOWS),
        *((np.float64, *each) for number, each in enumerate(_LAYOUTS_AND_WINDOWS) if (number + number // 10) % 2),
    ],
)
def test_windows_of_every_kind_are_pooled(target: Target, name: str, layout: str, dtype: type) -> None:
    """
    Any kernel, stride, pad and dilation, with a channel count that fills no block, gives the reference's result.
    """
    physical = blocked(target) if layout == "blocked" else None
    x = _image(2, 19, 13, 37, dtype=dtype)
    attrs = _attrs(_WINDOWS[name])
    SingleNode("max_pool", [x], attrs, layouts=(physical, physical)).check(target)
    for include in (False, True):
        node = SingleNode("avg_pool", [x], {**attrs, "count_include_pad": include}, layouts=(physical, physical))
        node.check(target, 1e-5 if dtype is np.float32 else 1e-13)


@pytest.mark.parametrize("width", [1, 3, 16, 17, 1024, 1025, 3000])
def test_one_spatial_axis_is_pooled_in_segments(target: Target, width: int) -> None:
    """
    A signal of any length is pooled as an image of height 1, long ones piece by piece.
    """
    x = _image(2, 3, width)
    SingleNode("max_pool", [x], _attrs({"kernel": (3,), "pads": (1, 1)})).check(target)
    node = SingleNode(
        "avg_pool", [x], _attrs({"kernel": (2,), "pads": (1, 1), "strides": (2,)}, count_include_pad=False)
    )
    node.check(target, 1e-5)


@pytest.mark.parametrize("layout", [None, Blocked(8)])
def test_a_nan_reaches_every_window_that_holds_it_and_no_other(target: Target, layout: Blocked | None) -> None:
    """
    NaN wins over every number, wherever it stands in the window.
    """
    for row, column in product(range(3), range(4)):
        x = _image(1, 8, 3, 4)
        x[0, :, row, column] = np.nan
        window = _attrs({"kernel": (2, 2), "pads": (1, 1, 0, 0)})
        SingleNode("max_pool", [x], window, layouts=(layout, layout)).check(target)


@pytest.mark.filterwarnings("ignore:invalid value encountered in maximum")  # NumPy's, of bf16 NaN
@pytest.mark.parametrize("name", _WINDOWS)
def test_the_largest_bf16_is_found_among_numbers_of_both_signs(target: Target, name: str) -> None:
    """
    Blocks of bf16 give the reference's result: positive, negative and infinite numbers, NaN of either sign.
    """
    x = _image(2, 19, 13, 37)
    x[0] -= 3.0
    x[1, ::3] = np.where(np.random.default_rng(1).random(x[1, ::3].shape) < 0.1, np.inf, x[1, ::3])
    x[1, 1::3] = -np.inf
    x[1, 2, 5, 7], x[1, 2, 9, 20] = np.nan, -np.nan
    physical = blocked(target)
    node = SingleNode("max_pool", [x.astype(bf16.numpy)], _attrs(_WINDOWS[name]), layouts=(physical, physical))
    (found,), (wanted,) = node.run(target), node.expected()
    np.testing.assert_array_equal(found.astype(np.float32), wanted.astype(np.float32))


@pytest.mark.parametrize("layout", [None, Blocked(8)])
def test_no_images_are_pooled_to_none(target: Target, layout: Blocked | None) -> None:
    """
    An empty batch has an empty result.
    """
    SingleNode("max_pool", [_image(0, 8, 5, 5)], _attrs({"kernel": (2, 2)}), layouts=(layout, layout)).check(target)


def test_infinities_survive(target: Target) -> None:
    """
    An image of minus infinity has minus infinity as its maximum.
    """
    x = np.full((1, 2, 5, 5), -np.inf, np.float32)
    SingleNode("max_pool", [x], _attrs({"kernel": (3, 3), "pads": (1, 1, 1, 1)})).check(target)
