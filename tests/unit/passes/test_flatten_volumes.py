"""Convolutions of volumes become convolutions of images."""

import pytest

from treadle import dtypes
from treadle.passes.flatten_volumes import FlattenVolumes

SHAPE = (2, 4, 6, 7, 5)


def convolved(write, x, *, kernel=(3, 2, 3), strides=(1, 1, 1), pads=(0,) * 6, dilations=(1, 1, 1), groups=1):
    weights = write.weights(6, x.shape[1] // groups, *kernel)
    bias = write.weights(6)
    return write.op("conv", x, weights, bias, strides=strides, pads=pads, dilations=dilations, groups=groups)


@pytest.mark.parametrize(
    ("form", "wanted"),
    [
        ({}, "gather transpose reshape reshape conv reshape transpose"),
        ({"strides": (2, 1, 2), "groups": 2}, "gather transpose reshape reshape conv reshape transpose"),
        (
            {"pads": (1, 0, 1, 2, 1, 0), "dilations": (2, 1, 1)},
            "pad gather transpose reshape reshape conv reshape transpose",
        ),
    ],
    ids=["plain", "strides_and_groups", "pads_and_dilations"],
)
def test_taps_along_the_depth_are_channels(write, apply, form, wanted):
    """
    The same sums by a convolution whose images are the positions along the depth.
    """
    y = convolved(write, write.input(*SHAPE), **form)

    assert " ".join(apply(write.done(y), FlattenVolumes())) == wanted


def test_images_stay(write, apply):
    image = write.op(
        "conv",
        write.input(2, 4, 7, 5),
        write.weights(6, 4, 2, 3),
        strides=(1, 1),
        pads=(0,) * 4,
        dilations=(1, 1),
        groups=1,
    )

    assert apply(write.done(image), FlattenVolumes()) == ["conv"]


def test_bytes_stay(write, apply):
    """
    Bytes are summed in integers.
    """
    x = write.input(*SHAPE, dtype=dtypes.u8)
    weights = write.constant(write.rng.integers(-128, 128, (6, 4, 3, 2, 3)), "int8")
    y = write.op("conv", x, weights, strides=(1, 1, 1), pads=(0,) * 6, dilations=(1, 1, 1), groups=1)

    assert apply(write.done(y), FlattenVolumes()) == ["conv"]


def test_doubles_are_flattened_too(write, apply):
    x = write.input(*SHAPE, dtype=dtypes.f64)
    weights = write.constant(write.rng.standard_normal((6, 4, 3, 2, 3)), "float64")
    y = write.op("conv", x, weights, strides=(1, 1, 1), pads=(0,) * 6, dilations=(1, 1, 1), groups=1)

    assert "conv" in apply(write.done(y), FlattenVolumes())
