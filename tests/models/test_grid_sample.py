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
@pytest.mark.parametrize(("opset", "mode"), [(16, "bilinear"), (20, "linear"), (16, "nearest")])
def test_places_mix_the_pixels_around_them(opset: int, mode: str, padding: str, aligned: int) -> None:
    one = node(opset, mode=mode, padding_mode=padding, align_corners=aligned)

    close(one.run(), [wanted(one)])
    close(one.run(is_open=True), [wanted(one)])
    close(one.run_by_onnxruntime(), [wanted(one)])


@pytest.mark.parametrize(("opset", "mode"), [(16, "bicubic"), (20, "cubic")])
def test_cubic_mixing_runs_by_the_reference(opset: int, mode: str) -> None:
    one = node(opset, mode=mode, padding_mode="border")

    close(one.run(may_call=True), [wanted(one)])


def test_the_mode_of_old_versions_need_not_be_given() -> None:
    one = node(16)

    close(one.run(), [wanted(replace(one, attributes={"mode": "bilinear"}))])
