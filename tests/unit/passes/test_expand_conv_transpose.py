"""Transposed convolutions become convolutions."""

import pytest

from treadle import dtypes
from treadle.passes.expand_conv_transpose import ExpandConvTranspose

CASES = {
    "a pixel becomes a square": ((2, 2), (2, 2), (0, 0, 0, 0), (0, 0), 1, 1, "conv spread"),
    "doubled": ((3, 3), (2, 2), (1, 1, 1, 1), (1, 1), 1, 1, "conv spread"),
    "doubled, with fewer taps and a cut": ((4, 4), (2, 2), (1, 1, 1, 1), (0, 0), 1, 1, "conv spread"),
    "in groups": ((3, 3), (2, 2), (1, 1, 0, 0), (0, 0), 1, 2, "conv reshape transpose reshape"),
    "in groups, with a slice": ((4, 4), (2, 2), (1, 1, 1, 1), (0, 0), 1, 2, "conv reshape transpose reshape slice"),
    "dilated": ((3, 3), (2, 2), (0, 0, 0, 0), (0, 0), 2, 1, "conv spread"),
    "of one stride": ((3, 3), (1, 1), (1, 1, 1, 1), (0, 0), 1, 1, "conv"),
    "with gaps": ((2, 1), (3, 2), (0, 0, 0, 0), (0, 1), 1, 1, "conv spread"),
    "of a row": ((16,), (8,), (4, 4), (0,), 1, 1, "conv spread"),
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
    The same sums; pads are left out by the convolution where that takes no more taps, else cut off.
    """
    kernel, strides, pads, padding, dilation, groups, wanted = CASES[name]
    x = write.input(2, 4, *(5, 7)[: len(kernel)])
    y = transposed(write, x, 6, kernel, strides, pads, padding, dilation, groups, bias=bias)

    assert " ".join(apply(write.done(y), ExpandConvTranspose())) == wanted


@pytest.mark.parametrize("kind", ["pads beyond all taps", "empty"])
def test_others_stay(write, apply, kind):
    """
    Pads that no convolution can leave out, images without pixels.
    """
    sizes = (0, 3) if kind == "empty" else (7, 7)
    pads = (9, 9, 0, 0) if kind == "pads beyond all taps" else (0,) * 4
    y = transposed(write, write.input(1, 2, *sizes), 3, (2, 2), (2, 2), pads, (0, 0), 1, 1)

    assert apply(write.done(y), ExpandConvTranspose()) == ["conv_transpose"]
    assert y.dtype == dtypes.f32


@pytest.mark.parametrize("name", ["doubled", "in groups", "of a row"])
def test_weights_that_are_computed_are_rearranged(write, apply, name):
    """
    Weights and bias that are inputs take the same form by a gather along each axis.
    """
    kernel, strides, pads, padding, dilation, groups, _ = CASES[name]
    rank = len(kernel)
    x = write.input(2, 4, *(5, 7)[:rank])
    weights, bias = write.input(4, 6 // groups, *kernel, name="w"), write.input(6, name="b")
    attrs = {"strides": strides, "pads": pads, "dilations": (dilation,) * rank, "groups": groups}
    y = write.op("conv_transpose", x, weights, bias, output_padding=padding, **attrs)
    found = apply(write.done(y), ExpandConvTranspose())

    assert found.count("conv") == 1
    assert found.count("gather") == rank
    assert "conv_transpose" not in found


def test_volumes_are_expanded(write, apply):
    """
    The kernel has three axes.
    """
    y = transposed(write, write.input(2, 4, 5, 7, 3), 6, (3, 2, 2), (2, 1, 2), (0,) * 6, (0, 0, 1), 1, 2)

    assert "conv" in apply(write.done(y), ExpandConvTranspose())


@pytest.mark.parametrize("channels", [1, 2, 4, 6])
def test_channels_fill_vectors_where_that_at_most_doubles_them(write, apply, channels):
    """
    The vectors of these tests have 4 lanes.
    """
    y = transposed(write, write.input(2, 4, 5, 7), channels, (2, 2), (2, 2), (0,) * 4, (0, 0), 1, 1)
    graph = write.done(y)
    apply(graph, ExpandConvTranspose())

    conv = next(node for node in graph.nodes if node.op == "conv")
    assert conv.output.shape[1] == 4 * {1: 1, 2: 4, 4: 4, 6: 8}[channels]


def test_scalar_ops_go_in_front_of_the_spread(write, apply):
    """
    But not one that reads another value, and not in front of a spread that others read too.
    """
    y = transposed(write, write.input(2, 4, 5, 7), 6, (2, 2), (2, 2), (0,) * 4, (0, 0), 1, 1)
    active = write.op("clip", write.op("relu", y), write.constant(0.0), write.constant(6.0))
    both = write.op("add", active, write.op("sigmoid", active))

    ops = apply(write.done(both), ExpandConvTranspose(), ExpandConvTranspose())
    assert " ".join(ops) == "conv relu clip spread sigmoid add"
