"""Whole graphs with open sizes are optimised like those of numbers, once for all sizes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from tests.unit.passes.conftest import TARGET, Writer, bound, computing, random_inputs, results, same_results

from treadle import dtypes
from treadle.codegen import target as targets
from treadle.graph.facts import Facts, Guard, is_assumed
from treadle.graph.graph import Graph
from treadle.graph.value import Value
from treadle.passes.base import PassContext
from treadle.passes.pipeline import optimize

UNARY = ("neg", "abs", "relu", "tanh", "sigmoid")
BINARY = ("add", "sub", "mul", "max")
HIDDEN, HEADS, VOCABULARY = 24, 3, 11


def dim(w: Writer, x: Value, axis: int) -> Value:
    """One size of `x`, as exporters ask for it."""
    return w.op("unsqueeze", w.op("gather", w.op("shape", x), w.constant(axis, np.int64), axis=0), w.ints(0))


def linear(w: Writer, x: Value, width: int, depth: int = HIDDEN) -> Value:
    return w.op("add", w.matmul(x, w.weights(depth, width)), w.weights(width))


def layer_norm(w: Writer, x: Value) -> Value:
    centred = w.op("sub", x, w.op("reduce_mean", x, axes=(-1,), keepdims=True))
    variance = w.op("reduce_mean", w.op("pow", centred, w.constant(2)), axes=(-1,), keepdims=True)
    normal = w.op("div", centred, w.op("sqrt", w.op("add", variance, w.constant(1e-5))))
    return w.op("add", w.op("mul", normal, w.weights(HIDDEN)), w.weights(HIDDEN))


def gelu(w: Writer, x: Value) -> Value:
    error = w.op("erf", w.op("div", x, w.constant(np.sqrt(2))))
    return w.op("mul", w.op("mul", x, w.op("add", error, w.constant(1))), w.constant(0.5))


def heads(w: Writer, x: Value, *perm: int) -> Value:
    shape = w.op("concat", dim(w, x, 0), dim(w, x, 1), w.ints(HEADS), w.ints(HIDDEN // HEADS), axis=0)
    return w.op("transpose", w.op("reshape", linear(w, x, HIDDEN), shape, allowzero=False), perm=perm)


def encoder(w: Writer, b: int, n: int) -> Graph:
    """Two layers of an encoder as PyTorch exports it: reshapes by computed shapes, a mask of floats."""
    ids = w.input(b, n, name="ids", dtype=dtypes.i64)
    mask = w.op("cast", w.input(b, n, name="mask", dtype=dtypes.i64), to=dtypes.f32)
    mask = w.op("unsqueeze", w.op("unsqueeze", mask, w.ints(1)), w.ints(2))
    mask = w.op("mul", w.op("sub", w.constant(1), mask), w.constant(-1e4))
    x = layer_norm(w, w.op("gather", w.weights(VOCABULARY, HIDDEN), ids, axis=0))
    for _ in range(2):
        scores = w.matmul(heads(w, x, 0, 2, 1, 3), heads(w, x, 0, 2, 3, 1))
        scores = w.op("add", w.op("div", scores, w.constant(np.sqrt(HIDDEN // HEADS))), mask)
        y = w.matmul(w.op("softmax", scores, axis=-1), heads(w, x, 0, 2, 1, 3))
        y = w.op("transpose", y, perm=(0, 2, 1, 3))
        shape = w.op("concat", dim(w, y, 0), dim(w, y, 1), w.ints(HIDDEN), axis=0)
        y = linear(w, w.op("reshape", y, shape, allowzero=False), HIDDEN)
        x = layer_norm(w, w.op("add", y, x))
        y = linear(w, gelu(w, linear(w, x, 32)), HIDDEN, depth=32)
        x = layer_norm(w, w.op("add", y, x))
    first = w.op("gather", x, w.constant(0, np.int64), axis=1)
    return w.done(x, w.op("tanh", linear(w, first, HIDDEN)))


def decoder_step(w: Writer, b: int, n: int) -> Graph:
    """One step with a cache of `n` tokens: keys and values are appended, and are outputs."""
    x = w.input(b, 1, HIDDEN)
    caches = [w.input(b, HEADS, n, HIDDEN // HEADS, name=name) for name in ("keys", "values")]
    query, key, value = (heads(w, x, 0, 2, 1, 3) for _ in range(3))
    keys, values = (w.op("concat", *pair, axis=2) for pair in zip(caches, (key, value), strict=True))
    scores = w.op("mul", w.matmul(query, w.op("transpose", keys, perm=(0, 1, 3, 2))), w.constant(0.25))
    y = w.op("transpose", w.matmul(w.op("softmax", scores, axis=-1), values), perm=(0, 2, 1, 3))
    y = w.op("reshape", y, w.op("concat", dim(w, x, 0), w.ints(1, HIDDEN), axis=0), allowzero=False)
    return w.done(w.op("add", linear(w, y, HIDDEN), x), keys, values)


def network(w: Writer, b: int, n: int) -> Graph:
    """A network of convolutions with channels last, as TensorFlow's converter writes it."""
    x = w.input(b, n, n, 3)
    for channels in ((3, 16), (16, 16), (16, 16)):
        y = w.op("transpose", x, perm=(0, 3, 1, 2))
        y = w.op("pad", y, w.ints(0, 0, 1, 1, 0, 0, 1, 1), mode="constant")
        weights = w.weights(channels[1], channels[0], 3, 3)
        y = w.op("conv", y, weights, strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1), groups=1)
        y = w.op("batch_norm", y, *[w.constant(np.arange(1, 17)) for _ in range(4)], epsilon=1e-5)
        y = w.op("transpose", y, perm=(0, 2, 3, 1))
        x = w.op("relu", w.op("add", y, x) if channels[0] == channels[1] else y)
    x = w.op("transpose", x, perm=(0, 3, 1, 2))
    attrs = {"kernel": (2, 2), "strides": (2, 2), "pads": (0, 0, 0, 0), "dilations": (1, 1), "ceil_mode": False}
    x = w.op("reduce_mean", w.op("max_pool", x, **attrs), axes=(2, 3), keepdims=True)
    shape = w.op("concat", dim(w, x, 0), w.ints(-1), axis=0)
    return w.done(w.op("softmax", linear(w, w.op("reshape", x, shape, allowzero=False), 7, depth=16), axis=1))


def optimized(build: Callable[[Writer, int, int], Graph], context: PassContext) -> tuple[Graph, Graph, list[Guard]]:
    """The graph for 3 and 20 and for symbols with these samples, both optimised; and what was assumed."""
    facts = Facts()
    static = optimize(build(Writer(), 3, 20), context)
    opened = optimize(build(Writer(), facts.symbol("b", 3), facts.symbol("n", 20)), context)
    return static, opened, facts.guards


def histogram(graph: Graph) -> Counter[tuple[str, ...]]:
    return Counter((node.op, *sorted({"epilogue", "head"} & node.attrs.keys())) for node in computing(graph))


def agrees(build: Callable[[Writer, int, int], Graph], opened: Graph, b: int, n: int) -> None:
    """Asserts that the optimised graph computes at `b` and `n` what is written."""
    written = build(Writer(), b, n)
    inputs = random_inputs(written)
    same_results(results(written, inputs), results(bound(opened, {"b": b, "n": n}), inputs))


GRAPHS = {"encoder": encoder, "decoder_step": decoder_step, "network": network}

ASSUMED = {"encoder": [], "decoder_step": [], "network": ["n - 2 >= 0"]}
"""What a plan of each graph assumes of its sizes."""


@pytest.mark.parametrize("math", ["fast", "exact"])
@pytest.mark.parametrize("target", [TARGET, targets.for_isa(targets.best_isa())], ids=["generic", "host"])
@pytest.mark.parametrize("name", GRAPHS)
def test_open_graphs_have_the_ops_of_graphs_of_numbers(name: str, target, math) -> None:
    """
    As many of each, with epilogues where they have some. The only assumptions are those of the operators themselves.
    """
    static, opened, guards = optimized(GRAPHS[name], PassContext(target, math=math))

    assert histogram(opened) == histogram(static)
    assert [str(guard) for guard in guards] == ASSUMED[name]
    assert not any(guard.op == "zero" and guard.holds for guard in guards)


def test_an_encoder_is_made_of_fused_ops() -> None:
    """
    Every transpose, scale, mask and activation of the open graph is part of another op.
    """
    _, opened, _ = optimized(encoder, PassContext(TARGET))

    counts = Counter(node.op for node in computing(opened))
    assert counts == {
        "gather": 2,
        "elementwise": 2,
        "layer_norm": 5,
        "matmul": 13,
        "reshape": 9,
        "attention": 2,
    }


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize(("b", "n"), [(3, 20), (1, 2), (2, 7), (4, 33)])
def test_one_optimised_graph_serves_all_sizes(name: str, b: int, n: int) -> None:
    _, opened, guards = optimized(GRAPHS[name], PassContext(TARGET))

    assert all(is_assumed(guard, {"b": b, "n": n}) for guard in guards)
    agrees(GRAPHS[name], opened, b, n)
