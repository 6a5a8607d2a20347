"""RoiAlign: kernels only, and what ONNX Runtime computes."""

from __future__ import annotations

import numpy as np
import pytest

import treadle
from tests.models.contrib import OneNode, close, some

REGIONS = np.array([[0, 0, 30, 40], [10, 12, 11, 12.5], [-6, -2, 20, 9], [5, 5, 90, 90]], np.float32)


def node(
    opset: int = 17, images: tuple[int, ...] = (0, 1, 0, 1), regions: np.ndarray = REGIONS, **attributes: object
) -> OneNode:
    operands = {"x": some(2, 5, 24, 21), "regions": regions, "images": np.array(images, np.int64)}
    stated = {"output_height": 3, "output_width": 4, "spatial_scale": 0.5} | attributes
    return OneNode("RoiAlign", operands, attributes=stated, domain="", opset=opset)


@pytest.mark.parametrize("opset", [13, 17])
@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("samples", [0, 2])
def test_regions_are_pooled_as_by_onnxruntime(opset: int, mode: str, samples: int) -> None:
    one = node(opset, mode=mode, sampling_ratio=samples)
    wanted = list(one.run_by_onnxruntime().values())

    close(one.run(), wanted, rtol=1e-4, atol=1e-5)
    close(one.run(is_open=True), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("number", [2, -1])
def test_an_image_that_there_is_not_is_an_error(number: int) -> None:
    one = node(images=(0, number, 0, 1))

    with pytest.raises(treadle.errors.RunError, match="out of range"):
        treadle.Session(one.model(is_open=False)).run(one.feeds())


@pytest.mark.parametrize("end", [np.inf, 1e9, np.nan])
def test_a_region_far_beyond_its_image_is_an_error_where_its_size_decides(end: float) -> None:
    regions = REGIONS.copy()
    regions[1, 3] = end
    one = node(regions=regions)

    with pytest.raises(treadle.errors.RunError, match="out of range"):
        treadle.Session(one.model(is_open=False)).run(one.feeds())
