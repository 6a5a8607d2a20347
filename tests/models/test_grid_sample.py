"""GridSample: kernels for images in modes nearest and linear, as the standard's reference computes them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from tests.models.contrib import Array, OneNode, close, some

X = some(2, 3, 4, 5)
GRID = np.random.default_rng(1).uniform(-1.6, 1.6, (2, 4, 3, 2)).astype(np.float32)
GRID[0, 0] = [[-1, -1], [1, 1], [0, 0]]
NEW_NAMES = {"bilinear": "linear", "bicubic": "cubic"}


CLAMPED = {("cubic", "border"), ("bicubic", "border")}
"""The reference moves places into the image first; ONNX Runtime and PyTorch take the nearest of each of 16 pixels."""


def node(opset: int, **attributes: object) -> OneNode:
    return OneNode("GridSample", {"x": X, "grid": GRID}, domain="", opset=opset, attributes=attributes)


def wanted(one: OneNode) -> Array:
    mode = str(one.attributes["mode"])
    newest = replace(one, opset=20, attributes={**one.attributes, "mode": NEW_NAMES.get(mode, mode)})
    model = onnx.load_from_string(newest.model(is_open=False))
    (found,) = ReferenceEvaluator(model).run(None, one.feeds())
    return np.asarray(found)


@pytest.mark.parametrize("aligned", [0, 1])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize(
    ("opset", "mode"), [(16, "bilinear"), (20, "linear"), (16, "nearest"), (16, "bicubic"), (20, "cubic")]
)
def test_places_mix_the_pixels_around_them(opset: int, mode: str, padding: str, aligned: int) -> None:
    one = node(opset, mode=mode, padding_mode=padding, align_corners=aligned)

    (theirs,) = one.run_by_onnxruntime().values()

    close(one.run(), [theirs])
    close(one.run(is_open=True), [theirs])
    if (mode, padding) not in CLAMPED:
        close(one.run(), [wanted(one)])


@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_images_of_one_channel_are_sampled_too(mode: str) -> None:
    """Their pixels are no rows that one sum of rows takes."""
    operands = {"x": X[:, :1], "grid": GRID}
    one = OneNode("GridSample", operands, domain="", opset=20, attributes={"mode": mode})

    close(one.run(), [wanted(one)])


def test_the_mode_of_old_versions_need_not_be_given() -> None:
    one = node(16)

    close(one.run(), [wanted(replace(one, attributes={"mode": "bilinear"}))])
