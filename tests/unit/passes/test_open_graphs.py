"""Whole graphs with open sizes are optimised like those of numbers, once for all sizes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from tests.unit.passes.conftest import TARGET, Writer, bound, computing, random_inputs, results, same_results

from treadle import dtypes
from treadle.codegen import target as targets
from treadle.graph.facts import Facts
from treadle.graph.graph import Graph
from treadle.graph.guard import Guard, is_assumed
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


def optimized(
    build: Callable[[Writer, int, int], Graph], context: PassContext, b: int = 3, n: int = 20, least: int = 1
) -> tuple[Graph, Graph, list[Guard]]:
    """The graph for `b` and `n` and for symbols with these samples, both optimised; and what was assumed."""
    facts = Facts()
    static = optimize(build(Writer(), b, n), context)
    opened = optimize(build(Writer(), facts.symbol("b", b), facts.symbol("n", n, least=least)), context)
    return static, opened, facts.guards


def histogram(graph: Graph) -> Counter[tuple[str, ...]]:
    return Counter((node.op, *sorted({"epilogue", "head"} & node.attrs.keys())) for node in computing(graph))


def agrees(build: Callable[[Writer, int, int], Graph], opened: Graph, b: int, n: int) -> None:
    """Asserts that the optimised graph computes at `b` and `n` what is written."""
    written = build(Writer(), b, n)
    inputs = random_inputs(written)
    same_results(results(written, inputs), results(bound(opened, {"b": b, "n": n}), inputs))


def moves(w: Writer, b: int, n: int) -> Graph:
    """Moves, sums and repeats along open axes, all of which are left out for sizes of 1."""
    x, row = w.input(b, n, 4), w.input(1, n, name="row")
    turned = w.op("transpose", x, perm=(1, 0, 2))
    mean = w.op("reduce_mean", x, axes=(0,), keepdims=False)
    total = w.op("reduce_sum", w.op("tanh", x), axes=(0, 1), keepdims=True)
    wide = w.op("mul", w.op("expand", row, w.sizes(b, n)), w.op("neg", row))
    tall = w.op("matmul", w.op("expand", w.input(1, 2, 4, name="z"), w.sizes(b, 2, 4)), w.input(1, 4, 3, name="y"))
    return w.done(turned, mean, total, wide, tall)


GRAPHS = {"encoder": encoder, "decoder_step": decoder_step, "network": network, "moves": moves}

ASSUMED = {"encoder": [], "decoder_step": [], "network": ["n >= 2"], "moves": []}
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


@pytest.mark.parametrize("name", ["encoder", "decoder_step", "moves"])
def test_samples_of_one_decide_nothing(name: str) -> None:
    """
    No axis counts as broadcast because its sample is 1.
    """
    _, opened, guards = optimized(GRAPHS[name], PassContext(TARGET), b=1, n=1)

    assert [str(guard) for guard in guards] == []
    for b, n in ((3, 20), (2, 1)):
        agrees(GRAPHS[name], opened, b, n)


def test_an_empty_cache_is_a_size_like_others() -> None:
    """
    The first step of a decoder has nothing to append to.
    """
    _, opened, guards = optimized(decoder_step, PassContext(TARGET), least=0)

    assert [str(guard) for guard in guards] == []
    agrees(decoder_step, opened, 2, 0)


def random_graph(seed: int) -> Callable[[Writer, int, int], Graph]:
    """A graph of a dozen ops on [b, 3, n, n]: scalar ops, convolutions, products, moves of axes, reductions."""

    def build(w: Writer, b: int, n: int) -> Graph:
        rng = w.rng = np.random.default_rng(seed)
        square = w.input(n, n, name="square")
        values = [w.input(b, 3, n, n), w.input(b, 3, n, n, name="y")]

        def pick() -> Value:
            return values[-1 - int(rng.integers(0, min(4, len(values))))]

        def constant() -> Value:
            shape = [(), (1,), (3, 1, 1), (1, 3, 1, 1)][rng.integers(0, 4)]
            return w.constant(rng.integers(0, 3, shape) if rng.random() < 0.5 else rng.standard_normal(shape))

        def narrow() -> Value:
            """An operand that is spread, by itself or by a node of its own."""
            small = w.op("reduce_max", pick(), axes=((2, 3), (1,), (3,))[rng.integers(0, 3)], keepdims=True)
            return small if rng.random() < 0.5 else w.op("expand", small, w.sizes(b, 3, n, n))

        def regrouped() -> Value:
            flat = w.op("flatten", pick(), axis=int(rng.integers(0, 4)))
            back = w.op("shape", pick()) if rng.random() < 0.5 else w.sizes(b, -1, n, n)
            return w.op("reshape", flat, back, allowzero=False)

        makers = [
            lambda: w.op(UNARY[rng.integers(0, len(UNARY))], pick()),
            lambda: w.op(BINARY[rng.integers(0, len(BINARY))], pick(), pick()),
            lambda: w.op(BINARY[rng.integers(0, len(BINARY))], pick(), constant()),
            lambda: w.op(BINARY[rng.integers(0, len(BINARY))], pick(), narrow()),
            lambda: w.op("where", w.op("gt", pick(), constant()), pick(), pick()),
            lambda: w.conv(pick(), (3, 3), w.weights(3) if rng.random() < 0.5 else None, size=3),
            lambda: w.matmul(pick(), square),
            lambda: w.matmul(pick(), pick(), transpose_b=bool(rng.random() < 0.5)),
            lambda: w.op("transpose", pick(), perm=(0, 1, 3, 2)),
            lambda: w.op("softmax", pick(), axis=3),
            regrouped,
        ]
        for _ in range(int(rng.integers(3, 16))):
            values.append(makers[rng.integers(0, len(makers))]())
            if rng.random() < 0.5:
                # Keeps numbers small, so that a relative tolerance means something.
                values.append(w.op("tanh", values.pop()))
        return w.done(*(w.op("tanh", pick()) for _ in range(int(rng.integers(1, 4)))))

    return build


@pytest.mark.parametrize("math", ["fast", "exact"])
@pytest.mark.parametrize("seed", range(60))
def test_random_graphs_are_optimised_once_for_all_sizes(seed: int, math, monkeypatch) -> None:
    """
    Whatever the graph, the open one has the ops of that of numbers, assumes nothing, and is right at other sizes.
    """
    monkeypatch.setenv("TREADLE_DEBUG", "1")
    build = random_graph(seed)
    static, opened, guards = optimized(build, PassContext(TARGET, math=math))

    assert histogram(opened) == histogram(static)
    assert [str(guard) for guard in guards] == []
    for b, n in ((1, 1), (2, 5)):
        agrees(build, opened, b, n)
