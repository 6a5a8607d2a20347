"""precision="bf16": which values are rounded, the error of results, and f32 on CPUs without the instruction."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treadle
from tests.unit.passes.conftest import Writer, random_inputs, results
from treadle import _native
from treadle.codegen import target as targets
from treadle.compiled_plans import Compiled
from treadle.driver import Options, compile_specialized
from treadle.dtypes import bf16, f32
from treadle.errors import TreadleError
from treadle.graph.graph import Graph
from treadle.graph.value import Value
from treadle.passes.specialize import copy_graph
from treadle.plan.kernels.attention import AttentionSpec
from treadle.plan.kernels.conv.direct import DirectConvSpec
from treadle.plan.kernels.gemm import GemmSpec
from treadle.plan.target import Target

Array = np.ndarray[Any, Any]

TEAMS = [_native.Team(f"precision{intra}{inter}", intra, inter) for intra, inter in ((1, 1), (2, 2), (4, 3))]

DIGITS = Path(__file__).parents[2] / "examples" / "digits"

LAYER_BOUND = 4e-3
"""Relative L2 distance to float64 of one layer: both factors are rounded to 8 bits."""

has_products = pytest.mark.skipif(
    not targets.for_isa(targets.best_isa()).has_bf16_dot, reason="this CPU lacks AVX512_BF16"
)


def compiled(graph: Graph, target: Target, precision: str = "bf16", math: str = "fast") -> Compiled:
    found = compile_specialized(copy_graph(graph), Options(target, math, precision=precision))  # type: ignore[arg-type]
    assert isinstance(found, Compiled)
    return found


def run(graph: Graph, target: Target, precision: str = "bf16", math: str = "fast") -> list[Array]:
    """Runs a session after checking that outputs have the same bits on every team."""
    plan = compiled(graph, target, precision, math)
    arrays = list(random_inputs(graph).values())
    first, *others = [plan.run(arrays, team) for team in TEAMS]
    for other in others:
        assert [array.tobytes() for array in other] == [array.tobytes() for array in first]
    return first


def rounded(array: Array) -> Array:
    return array.astype(bf16.numpy).astype(np.float32)


def distance(got: Array, wanted: Array) -> float:
    """Relative L2 distance."""
    wide = wanted.astype(np.float64)
    return float(np.linalg.norm(got.astype(np.float64) - wide) / np.linalg.norm(wide))


def conv(
    w: Writer, x: Value, outputs: int, size: int = 1, stride: int = 1, groups: int = 1, dilation: int = 1
) -> Value:
    channels = x.static_shape[1] if x.shape is not None else 0
    pad = size // 2 * dilation
    weights = w.weights(outputs, channels // groups, size, size)
    made = w.op(
        "conv", x, weights, None, strides=(stride,) * 2, pads=(pad,) * 4, dilations=(dilation,) * 2, groups=groups
    )
    made.dtype, made.shape = f32, (x.static_shape[0], outputs, *((n - 1) // stride + 1 for n in x.static_shape[2:]))
    return made


LAYERS: dict[str, tuple[tuple[int, ...], dict[str, int]]] = {
    "1x1": ((1, 48, 9, 11), {"outputs": 80}),
    "1x1, odd outputs": ((2, 32, 7, 7), {"outputs": 77}),
    "1x1, stride 2": ((1, 64, 14, 14), {"outputs": 320, "stride": 2}),
    "3x3": ((1, 32, 13, 13), {"outputs": 64, "size": 3}),
    "3x3, stride 2": ((1, 32, 15, 15), {"outputs": 48, "size": 3, "stride": 2}),
    "3x3, dilation 2": ((1, 16, 12, 12), {"outputs": 32, "size": 3, "dilation": 2}),
    "3x3, two images, half a block": ((2, 24, 8, 10), {"outputs": 40, "size": 3}),
    "5x5": ((1, 18, 11, 11), {"outputs": 16, "size": 5}),
    "3x3, two groups": ((1, 64, 9, 9), {"outputs": 64, "size": 3, "groups": 2}),
    "7x7, stride 2, an image": ((1, 3, 33, 37), {"outputs": 64, "size": 7, "stride": 2}),
    "3x3, stride 2, an image": ((2, 3, 22, 21), {"outputs": 40, "size": 3, "stride": 2}),
    "5x5, one channel": ((1, 1, 17, 18), {"outputs": 16, "size": 5}),
    "3x3, four channels": ((1, 4, 17, 9), {"outputs": 32, "size": 3}),
    "many channels": ((1, 1024, 4, 5), {"outputs": 64}),
}


@has_products
@pytest.mark.parametrize("name", LAYERS)
def test_a_convolution_rounds_its_factors_and_nothing_else(name: str) -> None:
    """
    Results are within the bound of float64, and within f32's own error of products of rounded factors.
    """
    shape, how = LAYERS[name]
    w = Writer()
    x = w.input(*shape)
    graph = w.done(conv(w, x, **how))
    (got,) = run(graph, targets.detect(), math="exact")
    (exact,) = results(graph, random_inputs(graph))
    weights = graph.nodes[0].operand(1)
    assert weights.data is not None
    weights.data = rounded(weights.data)
    (same_factors,) = results(graph, {"x": rounded(random_inputs(graph)["x"])})

    assert 1e-4 < distance(got, exact) <= LAYER_BOUND
    assert distance(got, same_factors) <= 1e-6


@has_products
@pytest.mark.parametrize("sizes", [(5, 6, 70), (128, 96, 200), (33, 130, 147), (1, 512, 300), (64, 384, 1000)])
@pytest.mark.parametrize("transposed", [False, True], ids=["", "weights transposed"])
def test_a_product_rounds_its_factors_and_nothing_else(sizes: tuple[int, int, int], *, transposed: bool) -> None:
    """
    [rows, depth] @ [depth, columns] with constant weights, in either order in memory.
    """
    rows, depth, columns = sizes
    w = Writer()
    b = w.weights(columns, depth) if transposed else w.weights(depth, columns)
    graph = w.done(w.matmul(w.input(rows, depth), b, transpose_b=transposed))
    (got,) = run(graph, targets.detect())
    (exact,) = results(graph, random_inputs(graph))
    assert b.data is not None
    b.data = rounded(b.data)
    (same_factors,) = results(graph, {"x": rounded(random_inputs(graph)["x"])})

    assert 1e-4 < distance(got, exact) <= LAYER_BOUND
    assert distance(got, same_factors) <= 1e-6


def vision() -> Graph:
    """A stem, depthwise and grouped convolutions, pools, a gate, a residual, a concatenation, a classifier."""
    w = Writer()
    x = w.op("relu", conv(w, w.input(1, 3, 32, 32), 32, 3, 2))
    x.dtype, x.shape = f32, (1, 32, 16, 16)
    wide = conv(w, x, 96)
    pools = {"kernel": (3, 3), "strides": (1, 1), "pads": (1, 1, 1, 1), "dilations": (1, 1), "ceil_mode": False}
    inner = w.op("clip", conv(w, wide, 96, 3, groups=96), w.constant(-2.0), w.constant(2.0))
    inner.dtype, inner.shape = f32, wide.shape
    added = w.op("add", conv(w, inner, 32), x)
    added.dtype, added.shape = f32, x.shape
    gated = w.op("mul", added, w.op("sigmoid", added))
    gated.dtype, gated.shape = f32, x.shape
    largest = w.op("max_pool", gated, **pools)
    mean = w.op("avg_pool", gated, **pools, count_include_pad=False)
    for pool in (largest, mean):
        pool.dtype, pool.shape = f32, x.shape
    joined = w.op("concat", largest, conv(w, mean, 64, 3), conv(w, gated, 24, 5), axis=1)
    joined.dtype, joined.shape = f32, (1, 120, 16, 16)
    last = w.op("relu", conv(w, joined, 70, 3, 2))
    last.dtype, last.shape = f32, (1, 70, 8, 8)
    pooled = w.op("reduce_mean", last, axes=(2, 3), keepdims=True)
    flat = w.op("reshape", pooled, w.ints(1, 70), allowzero=False)
    return w.done(w.matmul(flat, w.weights(70, 50)), last)


def text() -> Graph:
    """One layer of a transformer: normalisation, attention, two products with gelu between them, residuals."""
    w = Writer()
    x = w.input(1, 32, 64)
    normal = w.op("layer_norm", x, w.constant(np.ones(64)), w.constant(np.zeros(64)), axis=-1, epsilon=1e-5)
    heads = [
        w.op("reshape", w.matmul(normal, w.weights(64, 64)), w.ints(1, 32, 4, 16), allowzero=False) for _ in range(3)
    ]
    q, k, v = (w.op("transpose", head, perm=(0, 2, 1, 3)) for head in heads)
    scores = w.op("mul", w.matmul(q, w.op("transpose", k, perm=(0, 1, 3, 2))), w.constant(0.01))
    context = w.op("transpose", w.matmul(w.op("softmax", scores, axis=-1), v), perm=(0, 2, 1, 3))
    mixed = w.matmul(w.op("reshape", context, w.ints(1, 32, 64), allowzero=False), w.weights(64, 64))
    y = w.op("add", mixed, x)
    up = w.op("add", w.matmul(y, w.weights(64, 256)), w.weights(256))
    gelu = w.op("mul", up, w.op("sigmoid", w.op("mul", up, w.constant(1.702))))
    return w.done(w.op("add", w.matmul(gelu, w.weights(256, 64)), y))


NETWORKS = {"vision": vision, "text": text}


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_stay_near_f32_or_are_f32_where_the_cpu_cannot(name: str, target: Target) -> None:
    """
    A few layers stay within 2 %; a CPU without products of bf16 gives the very bits of precision="f32".
    """
    graph = NETWORKS[name]()
    wanted = results(graph, random_inputs(graph))
    got, plain = run(graph, target), run(graph, target, "f32")
    for one, other, exact in zip(got, plain, wanted, strict=True):
        if target.has_bf16_dot:
            assert 1e-4 < distance(one, exact) <= 2e-2
        else:
            assert one.tobytes() == other.tobytes()


@has_products
@pytest.mark.parametrize("name", NETWORKS)
def test_products_between_layers_are_of_bf16(name: str) -> None:
    """All products but a small classifier and those of attention are bf16 dot products; no node runs by its
    reference."""
    plan = compiled(NETWORKS[name](), targets.detect(), math="exact").plan
    assert all(call.spec is not None for call in plan.calls)
    products = [call.spec for call in plan.calls if call.spec is not None and call.spec.family in ("conv", "gemm")]
    assert all(isinstance(spec, (DirectConvSpec, GemmSpec)) for spec in products)
    uses_dot = [spec.bf16_dot for spec in products if isinstance(spec, (DirectConvSpec, GemmSpec))]
    assert sum(uses_dot) == len(products) - {"vision": 1, "text": 2}[name]


def attention(tokens: int, heads: int, depth: int, *, masked: bool) -> Graph:
    """Projections, scaled scores with a mask, softmax, the second product."""
    w, width = Writer(), heads * depth
    x = w.input(1, tokens, width)
    q, k, v = (
        w.op(
            "transpose", w.op("reshape", projected, w.ints(1, tokens, heads, depth), allowzero=False), perm=(0, 2, 1, 3)
        )
        for projected in (w.matmul(x, w.constant(w.rng.standard_normal((width, width)) / width**0.5)) for _ in range(3))
    )
    scores = w.op("mul", w.matmul(q, w.op("transpose", k, perm=(0, 1, 3, 2))), w.constant(depth**-0.5))
    if masked:
        scores = w.op("add", scores, w.weights(1, 1, tokens, tokens))
    return w.done(w.matmul(w.op("softmax", scores, axis=-1), v))


@has_products
@pytest.mark.parametrize(
    ("tokens", "heads", "depth", "masked", "pairs"),
    [
        (64, 2, 32, False, True),
        (50, 3, 16, True, True),
        (130, 2, 64, True, True),
        (33, 2, 32, False, False),
        (64, 4, 24, False, False),
    ],
)
def test_attention_uses_bf16_dot_products_where_pairs_are_contiguous(
    tokens: int, heads: int, depth: int, *, masked: bool, pairs: bool
) -> None:
    """
    With an odd number of keys, or values that do not fill vectors, attention stays f32.
    """
    graph = attention(tokens, heads, depth, masked=masked)
    (wanted,) = results(graph, random_inputs(graph))
    (got,) = run(graph, targets.detect())
    assert 1e-4 < distance(got, wanted) <= 1e-2
    calls = compiled(graph, targets.detect()).plan.calls
    assert [call.spec.bf16_dot for call in calls if isinstance(call.spec, AttentionSpec)] == [pairs]


@has_products
def test_nan_and_infinities_propagate() -> None:
    """NaN and infinities propagate as in f32."""
    w = Writer()
    graph = w.done(w.matmul(w.input(4, 64), w.constant(np.ones((64, 96)))))
    x = np.ones((4, 64), np.float32)
    x[1, 3], x[2, 5], x[3, 7] = np.nan, np.inf, -np.inf
    (got,) = compiled(graph, targets.detect()).run([x], TEAMS[0])
    assert np.isnan(got[1]).all()
    assert (got[2] == np.inf).all()
    assert (got[3] == -np.inf).all()
    assert (got[0] == 64).all()


def test_trained_digits_are_recognised_alike() -> None:
    """
    The example's network recognises as many held-out digits; its answers differ for a few in a thousand at most.
    """
    with np.load(DIGITS / "images.npz") as data:
        images, labels = (data["images"] / 16.0).astype(np.float32)[:, None], data["labels"]
    plain, half = (
        treadle.Session(DIGITS / "digits.onnx", precision=precision).run({"images": images})["probabilities"].argmax(1)
        for precision in ("f32", "bf16")
    )
    assert (plain == half).mean() >= 0.995
    assert (half == labels).mean() >= (plain == labels).mean() - 0.005


def test_an_unknown_precision_is_refused() -> None:
    """The message names the precisions."""
    with pytest.raises(TreadleError, match="precision: wanted 'f32' or 'bf16', got 'f16'"):
        treadle.Session(vision(), precision="f16")  # type: ignore[arg-type]


def test_inputs_and_outputs_are_f32_at_either_precision() -> None:
    """Inputs and outputs have the model's dtypes."""
    graph = vision()
    inputs = random_inputs(graph)
    for precision in ("f32", "bf16"):
        session = treadle.Session(copy_graph(graph), precision=precision)  # type: ignore[arg-type]
        assert all(array.dtype == np.float32 for array in session.run(inputs).values())
