"""Normalisations written out in primitive ops are recognised."""

import pytest

from treadle.passes.fuse_layer_norm import FuseLayerNorm
from treadle.passes.fuse_softmax import FuseSoftmax
from treadle.passes.remove_dead import RemoveDead


def centred_and_root(write, x, square):
    centred = write.op("sub", x, write.op("reduce_mean", x, axes=(-1,), keepdims=True))
    squared = write.op("mul", centred, centred) if square == "mul" else write.op("pow", centred, write.constant(2))
    variance = write.op("reduce_mean", squared, axes=(2,), keepdims=True)
    return centred, write.op("add", write.constant(1e-5), variance)


@pytest.mark.parametrize("square", ["mul", "pow"])
@pytest.mark.parametrize("inverse", ["div", "rsqrt", "reciprocal"])
def test_layer_norm(write, apply, square, inverse):
    """
    Mean, centring, variance, division, scale and shift become one layer norm.
    """
    centred, radicand = centred_and_root(write, write.input(2, 3, 8), square)
    if inverse == "div":
        y = write.op("div", centred, write.op("sqrt", radicand))
    elif inverse == "rsqrt":
        y = write.op("mul", write.op("rsqrt", radicand), centred)
    else:
        y = write.op("mul", centred, write.op("reciprocal", write.op("sqrt", radicand)))
    graph = write.done(write.op("add", write.weights(8), write.op("mul", y, write.weights(8))))

    assert apply(graph, *[FuseLayerNorm()] * 3, RemoveDead()) == ["layer_norm"]
    assert graph.nodes[0].attrs["axis"] == 2
    assert len([value for value in graph.nodes[0].inputs if value]) == 3


def test_scale_of_another_shape_stays(write, apply):
    """
    A factor that varies along other axes than the normalised ones is no scale.
    """
    y = write.op("layer_norm", write.input(2, 3, 8), None, None, axis=2, epsilon=1e-5)
    graph = write.done(write.op("mul", y, write.weights(3, 1)))

    assert apply(graph, FuseLayerNorm()) == ["layer_norm", "mul"]


def test_exact_math_keeps_the_steps(write, apply, exact):
    """
    Under exact math the written order of operations is kept.
    """
    centred, radicand = centred_and_root(write, write.input(2, 3, 8), "mul")
    graph = write.done(write.op("div", centred, write.op("sqrt", radicand)))

    assert "layer_norm" not in apply(graph, FuseLayerNorm(), context=exact)


@pytest.mark.parametrize("shifted", [True, False])
def test_softmax(write, apply, shifted):
    """
    Exponentials divided by their sum are a softmax, with or without the maximum taken off first.
    """
    x = write.input(2, 5)
    shift = write.op("sub", x, write.op("reduce_max", x, axes=(1,), keepdims=True)) if shifted else x
    e = write.op("exp", shift)
    graph = write.done(write.op("div", e, write.op("reduce_sum", e, axes=(1,), keepdims=True)))

    assert apply(graph, FuseSoftmax(), RemoveDead()) == ["softmax"]


def test_other_axis_is_no_softmax(write, apply):
    """
    A sum over several axes is not the sum of a softmax.
    """
    e = write.op("exp", write.input(2, 5))
    graph = write.done(write.op("div", e, write.op("reduce_sum", e, axes=(0, 1), keepdims=True)))

    assert apply(graph, FuseSoftmax()) == ["exp", "reduce_sum", "div"]
