"""pad and resize kernels."""

from typing import Any

import numpy as np
import pytest
from tests.single_node import SingleNode, blocked

from treadle.plan.target import Target


def _image(*shape: int, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    return (np.random.default_rng(0).random(shape) * 100).astype(dtype)


def _i64(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, np.int64)


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge", "wrap"])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
def test_every_mode_pads_every_axis(target: Target, mode: str, dtype: Any) -> None:
    """
    Pads on all axes, on one, none at all, and negative ones.
    """
    x = _image(3, 4, 5, 17, dtype=dtype)
    for pads in ((1, 0, 2, 3, 0, 2, 1, 4), (0, 0, 0, 3, 0, 0, 0, 0), (0, 0, 2, 0, 0, 0, 2, 0), (0,) * 8,
                 (0, 0, -1, 2, 0, 1, 2, -3), (0, 3, 0, 0, 0, 3, 0, 0)):  # fmt: skip
        SingleNode("pad", [x, _i64(*pads)], {"mode": mode}, constants=(1,)).check(target)


def test_the_fill_value_may_be_an_operand(target: Target) -> None:
    """
    Constant pads take any value, known when the model runs, and named axes.
    """
    value = np.array(7.5, np.float32)
    SingleNode("pad", [_image(3, 5), _i64(1, 1, 2, 2), value], {"mode": "constant"}, constants=(1,)).check(target)
    operands = [_image(3, 5), _i64(1, 2), value, _i64(-1)]
    SingleNode("pad", operands, {"mode": "constant"}, constants=(1, 3)).check(target)
    SingleNode("pad", [_image(0, 3), _i64(2, 1, 0, 1)], {"mode": "constant"}, constants=(1,)).check(target)


def test_blocked_images_are_padded_in_place_of_their_pixels(target: Target) -> None:
    """
    Spatial pads keep the blocked layout.
    """
    layout = blocked(target)
    for mode in ("constant", "edge"):
        operands = [_image(2, 11, 5, 6), _i64(0, 0, 1, 2, 0, 0, 0, 3)]
        SingleNode("pad", operands, {"mode": mode}, constants=(1,), layouts=(layout, layout)).check(target)


def _resize(mode: str, coordinates: str = "half_pixel", **more: Any) -> dict[str, Any]:
    return {"mode": mode, "coordinate_mode": coordinates, **more}


@pytest.mark.parametrize("layout", ["plain", "blocked"])
@pytest.mark.parametrize("scales", [(1, 1, 2, 2), (1, 1, 0.6, 1.7), (1, 1, 3, 1), (1, 1, 1, 1)])
def test_images_are_resized(target: Target, layout: str, scales: tuple[float, ...]) -> None:
    """
    Nearest, linear and cubic, up and down, on plain and blocked memory.
    """
    physical = blocked(target) if layout == "blocked" else None
    operands = [_image(2, 5, 9, 20), None, np.array(scales, np.float32)]
    for coordinates in ("half_pixel", "asymmetric", "align_corners"):
        for mode in ("nearest", "linear", "cubic"):
            node = SingleNode(
                "resize", operands, _resize(mode, coordinates), constants=(2,), layouts=(physical, physical)
            )
            node.check(target, 0.0 if mode == "nearest" else 2e-4)


def test_sizes_may_be_given_instead_of_scales(target: Target) -> None:
    """
    Any axes are resized to given sizes, doubles and bytes too; antialiasing takes more taps.
    """
    sizes = _i64(3, 7, 4, 31)
    SingleNode("resize", [_image(2, 5, 9, 20), None, None, sizes], _resize("linear"), constants=(3,)).check(
        target, 2e-4
    )
    doubles = [_image(2, 5, 9, 20, dtype=np.float64), None, None, sizes]
    SingleNode("resize", doubles, _resize("cubic", antialias=True), constants=(3,)).check(target, 1e-12)
    small = [_image(2, 5, 9, 20, dtype=np.uint8), None, None, sizes]
    SingleNode("resize", small, _resize("nearest"), constants=(3,)).check(target)


def test_places_outside_the_crop_are_extrapolated(target: Target) -> None:
    """
    tf_crop_and_resize gives the extrapolation value beyond the image.
    """
    roi = np.array([0, 0, -0.5, 0.2, 1, 1, 1.2, 0.9], np.float32)
    attrs = _resize("nearest", "tf_crop_and_resize", extrapolation=-3.0)
    operands = [_image(1, 2, 6, 7), roi, None, _i64(1, 2, 9, 5)]
    SingleNode("resize", operands, attrs, constants=(1, 3)).check(target)
