"""Transposed convolutions become convolutions."""

import pytest

from treadle import dtypes
from treadle.passes.expand_conv_transpose import ExpandConvTranspose

CASES = {
    "a pixel becomes a square": ((2, 2), (2, 2), (0, 0, 0, 0), (0, 0), 1, 1, "conv reshape transpose reshape"),
    "doubled": ((3, 3), (2, 2), (1, 1, 1, 1), (1, 1), 1, 1, "conv reshape transpose reshape"),
    "doubled, with fewer taps and a slice": (
        (4, 4), (2, 2), (1, 1, 1, 1), (0, 0), 1, 1, "conv reshape transpose reshape slice",
    ),
    "in groups": ((3, 3), (2, 2), (1, 1, 0, 0), (0, 0), 1, 2, "conv reshape transpose reshape"),
    "dilated": ((3, 3), (2, 2), (0, 0, 0, 0), (0, 0), 2, 1, "conv reshape transpose reshape slice"),
    "of one stride": ((3, 3), (1, 1), (1, 1, 1, 1), (0, 0), 1, 1, "conv"),
    "with gaps": ((2, 1), (3, 2), (0, 0, 0, 0), (0, 1), 1, 1, "conv reshape transpose reshape slice"),
    "of a row": ((16,), (8,), (4, 4), (0,), 1, 1, "conv reshape transpose reshape slice"),
}  # fmt: skip


def transposed(write, x, outputs, kernel, strides, pads, padding, dilation, groups, *, bias=True):
    rank = len(kernel)
    weights = write.weights(x.shape[1], outputs // groups, *kernel)
    return write.op(
        "conv_transpose",
        x,
        weights,
        write.weights(outputs) if bias else None,
        strides=strides,
        pads=pads,
        dilations=(dilation,) * rank,
        groups=groups,
        output_padding=padding,
    )


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_pixels_are_channels_of_a_convolution(write, apply, name, bias):
    """
    The same sums; pads are left out by the convolution where that takes no more taps, else sliced off.
    """
    kernel, strides, pads, padding, dilation, groups, wanted = CASES[name]
    x = write.input(2, 4, *(5, 7)[: len(kernel)])
    y = transposed(write, x, 6, kernel, strides, pads, padding, dilation, groups, bias=bias)

    assert " ".join(apply(write.done(y), ExpandConvTranspose())) == wanted


@pytest.mark.parametrize("kind", ["weights are an input", "three axes", "pads beyond all taps", "empty"])
def test_others_stay(write, apply, kind):
    """
    Weights that are not constant, volumes, pads that no convolution can leave out, images without pixels.
    """
    sizes = {"three axes": (3, 3, 3), "empty": (0, 3)}.get(kind, (7, 7))
    rank = len(sizes)
    pads = (9,) * rank + (0,) * rank if kind == "pads beyond all taps" else (0,) * 2 * rank
    x = write.input(1, 2, *sizes)
    if kind == "weights are an input":
        w = write.input(2, 3, 2, 2, name="w")
        attrs = {"strides": (2, 2), "dilations": (1, 1), "groups": 1, "output_padding": (0, 0)}
        y = write.op("conv_transpose", x, w, None, pads=pads, **attrs)
    else:
        y = transposed(write, x, 3, (2,) * rank, (2,) * rank, pads, (0,) * rank, 1, 1)

    assert apply(write.done(y), ExpandConvTranspose()) == ["conv_transpose"]
    assert y.dtype == dtypes.f32
