"""Batch normalisation and constant factors become part of weights."""

import numpy as np
import pytest

from treadle.dtypes import i64
from treadle.passes.fold_batch_norm import FoldBatchNorm
from treadle.passes.fold_scales import FoldScales
from treadle.passes.simplify_arithmetic import SimplifyArithmetic


def batch_norm(write, x, channels):
    gamma, beta, mean = (write.weights(channels) for _ in range(3))
    variance = write.constant(np.arange(1, channels + 1))
    return write.op("batch_norm", x, gamma, beta, mean, variance, epsilon=1e-5)


@pytest.mark.parametrize("bias", [True, False])
def test_batch_norm_after_conv(write, apply, bias):
    """
    A batch norm behind a convolution of constant weights disappears into them.
    """
    y = write.conv(write.input(1, 3, 5, 5), (3, 4), write.weights(4) if bias else None)
    graph = write.done(batch_norm(write, y, 4))

    assert apply(graph, FoldBatchNorm()) == ["conv"]


def test_batch_norm_after_conv_transpose(write, apply):
    """
    The weights of a transposed convolution have their outputs on axis 1.
    """
    w = write.weights(3, 4, 2, 2)
    attrs = {"strides": (2, 2), "pads": (0, 0, 0, 0), "dilations": (1, 1), "groups": 1, "output_padding": (0, 0)}
    y = write.op("conv_transpose", write.input(1, 3, 4, 4), w, None, **attrs)
    graph = write.done(batch_norm(write, y, 4))

    assert apply(graph, FoldBatchNorm()) == ["conv_transpose"]


def test_batch_norm_alone(write, apply):
    """
    A batch norm without a convolution before it becomes a multiplication and an addition.
    """
    graph = write.done(batch_norm(write, write.input(2, 3, 4), 3))

    assert apply(graph, FoldBatchNorm()) == ["mul", "add"]


def test_shared_conv_is_not_folded(write, apply):
    """
    A convolution whose result is read elsewhere keeps its weights.
    """
    y = write.conv(write.input(1, 3, 5, 5), (3, 4))
    graph = write.done(batch_norm(write, y, 4), write.op("neg", y))

    assert apply(graph, FoldBatchNorm()) == ["conv", "mul", "add", "neg"]


def test_exact_math_leaves_weights(write, apply, exact):
    """
    Under exact math weights are not multiplied; the arithmetic is left for the convolution's epilogue.
    """
    graph = write.done(batch_norm(write, write.conv(write.input(1, 3, 5, 5), (3, 4)), 4))

    assert apply(graph, FoldBatchNorm(), context=exact) == ["conv", "mul", "add"]


def test_computed_statistics_stay(write, apply):
    """
    A batch norm whose statistics are computed by the graph stays as it is.
    """
    x, stats = write.input(2, 3, 4), write.input(3, name="s")
    graph = write.done(write.op("batch_norm", x, stats, stats, stats, write.op("exp", stats), epsilon=1e-5))

    assert apply(graph, FoldBatchNorm()) == ["exp", "batch_norm"]


@pytest.mark.parametrize("shape", [(), (4, 1, 1), (1, 4, 1, 1)])
def test_factor_after_conv(write, apply, shape):
    """
    A factor for each channel, or for all, is multiplied into weights and bias.
    """
    y = write.conv(write.input(1, 3, 5, 5), (3, 4), write.weights(4))
    graph = write.done(write.op("mul", write.weights(*shape), y))

    assert apply(graph, FoldScales()) == ["conv"]


def test_factor_along_a_row_stays(write, apply):
    """
    A factor that varies along a spatial axis cannot be in the weights.
    """
    y = write.conv(write.input(1, 3, 5, 5), (3, 4))
    graph = write.done(write.op("mul", y, write.weights(5)))

    assert apply(graph, FoldScales()) == ["conv", "mul"]


@pytest.mark.parametrize("transposed", [True, False])
def test_factor_after_matmul(write, apply, transposed):
    """
    A factor for each column is multiplied into the weights of a matmul.
    """
    w = write.weights(4, 3) if transposed else write.weights(3, 4)
    y = write.matmul(write.input(2, 3), w, transpose_b=transposed)
    graph = write.done(write.op("mul", y, write.weights(4)))

    assert apply(graph, FoldScales()) == ["matmul"]


def test_shared_weights_are_not_scaled(write, apply):
    """
    Weights that another node reads too are not copied to be scaled.
    """
    x, w = write.input(3, 3), write.weights(3, 3)
    y = write.op("mul", write.matmul(x, w), write.constant(2))
    graph = write.done(write.matmul(y, w))

    assert "mul" in apply(graph, FoldScales())


def test_signs_go_into_weights(write, apply):
    """
    A negated product has negated weights and bias; small weights that another node reads are copied.
    """
    x, w = write.input(1, 3, 5, 5), write.weights(4, 3, 1, 1)
    conv = {"strides": (1, 1), "pads": (0, 0, 0, 0), "dilations": (1, 1), "groups": 1}
    one = write.op("neg", write.op("conv", x, w, write.weights(4), **conv))
    graph = write.done(write.op("add", one, write.op("conv", x, w, **conv)))

    assert sorted(apply(graph, FoldScales())) == ["add", "conv", "conv"]


def test_integers_keep_their_weights(write, apply):
    """
    Numbers above 2^53 would not be exact as reals, in which weights are scaled.
    """
    large = (write.constant([[2**61 + 1]], np.int64) for _ in range(2))
    x = write.input(1, 1, dtype=i64)
    product, negated = (write.matmul(x, w) for w in large)
    graph = write.done(write.op("mul", product, write.constant(3, np.int64)), write.op("neg", negated))

    assert apply(graph, FoldScales()) == ["matmul", "matmul", "mul", "neg"]


def test_factors_move_behind_matmul(write, apply):
    """
    Factors of both operands of a matmul, even behind a transpose, become one factor of its result.
    """
    q, k = write.input(1, 2, 4, 8, name="q"), write.input(1, 2, 4, 8, name="k")
    scaled = write.op("transpose", write.op("mul", k, write.constant(0.5)), perm=(0, 1, 3, 2))
    graph = write.done(write.matmul(write.op("mul", q, write.constant(0.25)), scaled))

    ops = apply(graph, FoldScales(), FoldScales(), SimplifyArithmetic())
    assert ops == ["transpose", "matmul", "mul"]
    assert graph.nodes[-1].operand(1).data == 0.125
