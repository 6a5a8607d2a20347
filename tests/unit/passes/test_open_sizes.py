"""Passes rewrite graphs whose sizes are expressions as they rewrite graphs of numbers, and assume nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest
from tests.unit.passes.conftest import TARGET, Writer, bound, computing, random_inputs, results, same_results

from treadle import dtypes
from treadle.graph.facts import Facts
from treadle.graph.graph import Graph
from treadle.graph.guard import evaluate as evaluate_size
from treadle.graph.value import Value
from treadle.graph.verify import verify
from treadle.passes.absorb_transposes import AbsorbTransposes
from treadle.passes.base import Pass, PassContext
from treadle.passes.choose_layouts import ChooseLayouts
from treadle.passes.choose_precision import ChoosePrecision
from treadle.passes.expand_conv_transpose import ExpandConvTranspose
from treadle.passes.expand_einsum import ExpandEinsum
from treadle.passes.fold_batch_norm import FoldBatchNorm
from treadle.passes.fold_constants import FoldConstants
from treadle.passes.fold_pads import FoldPads
from treadle.passes.fold_scales import FoldScales
from treadle.passes.fuse_attention import FuseAttention
from treadle.passes.fuse_bags import FuseBags
from treadle.passes.fuse_epilogue import FuseEpilogue
from treadle.passes.fuse_head import FuseHead
from treadle.passes.fuse_layer_norm import FuseLayerNorm
from treadle.passes.fuse_softmax import FuseSoftmax
from treadle.passes.group_elementwise import GroupElementwise
from treadle.passes.merge_common import MergeCommon
from treadle.passes.pick_channels import PickChannels
from treadle.passes.share_heads import ShareHeads
from treadle.passes.simplify_arithmetic import SimplifyArithmetic
from treadle.passes.simplify_broadcasts import SimplifyBroadcasts
from treadle.passes.simplify_identities import SimplifyIdentities
from treadle.passes.simplify_reshapes import SimplifyReshapes
from treadle.passes.simplify_transposes import SimplifyTransposes
from treadle.passes.sink_transposes import SinkTransposes
from treadle.passes.widen_bytes import WidenBytes
from treadle.plan.target import Target

LAST, FIRST = (0, 2, 3, 1), (0, 3, 1, 2)
BF16_TARGET = Target("avx512", TARGET.triple, "x86-64", "+avx512bf16", 64, 32, 1 << 15, 1 << 20, 1 << 25)

Build = Callable[[Writer, int, int], Value]


def reshape(w: Writer, x: Value, *dims: int) -> Value:
    return w.op("reshape", x, w.sizes(*dims), allowzero=False)


def transpose(w: Writer, x: Value, *perm: int) -> Value:
    return w.op("transpose", x, perm=perm)


def identities(w: Writer, b: int, n: int) -> Value:
    x = w.op("mul", w.input(b, n), w.constant(1))
    x = w.op("expand", reshape(w, x, b, n), w.sizes(b, n))
    x = w.op("slice", x, w.ints(0), w.ints(1 << 40), w.ints(1), w.ints(1))
    return w.op("relu", w.op("concat", x, w.input(b, 0, name="empty"), axis=1))


def broadcasts(w: Writer, b: int, n: int) -> Value:
    mask = w.op("expand", w.input(n, 1, name="mask"), w.sizes(b, n, 4))
    x = w.op("mul", w.op("add", w.input(b, n, 4), mask), w.constant([7] * 4))
    return w.matmul(x, w.op("expand", w.weights(4, 5), w.sizes(b, 4, 5)))


def reshapes(w: Writer, b: int, n: int) -> Value:
    x = w.op("unsqueeze", w.op("flatten", w.input(b, n, 4), axis=1), w.ints(0))
    x = w.op("reduce_mean", transpose(w, x, 1, 0, 2), axes=(1,), keepdims=False)
    return reshape(w, w.op("squeeze", w.op("unsqueeze", x, w.ints(2)), w.ints(2)), b, 2, -1)


def transposes(w: Writer, b: int, n: int) -> Value:
    return transpose(w, transpose(w, w.input(b, n, 4), 0, 2, 1), 1, 0, 2)


def channels_last(w: Writer, b: int, n: int) -> Value:
    x = transpose(w, w.conv(w.input(b, 4, n, 5), (4, 8)), *LAST)
    gate = w.op("reduce_mean", x, axes=(1, 2), keepdims=True)
    x = w.op("add", w.op("mul", x, gate), w.input(b, 1, 1, 8, name="y"))
    x = w.op("mul", x, w.constant(np.arange(8)))
    x = w.op("concat", x, x, axis=3)
    x = w.op("pad", x, w.ints(0, 1, 0, 0, 0, 1, 0, 0), mode="constant")
    return w.conv(transpose(w, x, *FIRST), (16, 4))


def pads(w: Writer, b: int, n: int) -> Value:
    padded = w.op("pad", w.input(b, 3, n, 5), w.ints(0, 0, 1, 2, 0, 0, 1, 2), mode="constant")
    return w.conv(padded, (3, 4), size=3)


def arithmetic(w: Writer, b: int, n: int) -> Value:
    x = w.op("pow", w.input(b, n), w.constant(2))
    x = w.op("mul", w.op("mul", x, w.constant(2)), w.constant(3))
    x = w.op("where", w.constant(True, bool), w.op("div", x, w.constant(8)), w.input(n, name="y"))
    return w.op("neg", w.op("where", w.input(n, name="c", dtype=dtypes.boolean), x, x))


def batch_norm(w: Writer, b: int, n: int) -> Value:
    statistics = [w.constant(np.arange(1, 5)) for _ in range(4)]
    return w.op("batch_norm", w.conv(w.input(b, 3, n, 5), (3, 4)), *statistics, epsilon=1e-5)


def enlarged(w: Writer, b: int, n: int) -> Value:
    attrs = {"pads": (1, 1, 1, 1), "dilations": (1, 1), "groups": 1, "output_padding": (0, 0)}
    x = w.op("conv_transpose", w.input(b, 3, n, 5), w.weights(3, 4, 4, 4), None, strides=(2, 2), **attrs)
    return w.op("conv_transpose", x, w.weights(4, 2, 3, 3), None, strides=(3, 1), **attrs)


def einsums(w: Writer, b: int, n: int) -> Value:
    scores = w.op("einsum", w.input(b, n, 4, 8), w.input(b, n, 4, 8, name="k"), equation="bqhd,bkhd->bhqk")
    return w.op("einsum", scores, w.input(b, n, name="w"), w.weights(4, 5), equation="bhqk,bk,hm->qmb")


def layer_norm(w: Writer, x: Value) -> Value:
    centred = w.op("sub", x, w.op("reduce_mean", x, axes=(-1,), keepdims=True))
    variance = w.op("reduce_mean", w.op("pow", centred, w.constant(2)), axes=(-1,), keepdims=True)
    normal = w.op("div", centred, w.op("sqrt", w.op("add", variance, w.constant(1e-5))))
    return w.op("add", w.op("mul", normal, w.weights(8)), w.weights(8))


def softmax(w: Writer, b: int, n: int) -> Value:
    x = w.input(b, n)
    power = w.op("exp", w.op("sub", x, w.op("reduce_max", x, axes=(1,), keepdims=True)))
    return w.op("div", power, w.op("reduce_sum", power, axes=(1,), keepdims=True))


def scales(w: Writer, b: int, n: int) -> Value:
    query = w.op("mul", w.matmul(w.input(b, n, 4), w.weights(4, 8)), w.weights(8))
    key = reshape(w, w.op("mul", w.input(b, 8 * n, name="k"), w.constant(0.5)), b, 8, n)
    image = w.op("mul", w.conv(w.input(b, 3, n, n, name="image"), (3, 4)), w.weights(4, 1, 1))
    return w.op("add", w.op("reduce_mean", image, axes=(1,), keepdims=False), w.matmul(query, key))


def heads(w: Writer, name: str, b: int, n: int) -> Value:
    return transpose(w, reshape(w, w.input(b, n, 24, name=name), b, n, 3, 8), 0, 2, 1, 3)


def absorbed(w: Writer, b: int, n: int) -> Value:
    scores = w.matmul(heads(w, "q", b, n), transpose(w, heads(w, "k", b, n), 0, 1, 3, 2))
    return transpose(w, scores, 0, 2, 1, 3)


def merged(w: Writer, b: int, n: int) -> Value:
    x = w.input(b, n)
    return w.matmul(reshape(w, x, b, 1, n), reshape(w, x, b, 1, n), transpose_b=True)


def wide_bytes(w: Writer, b: int, n: int) -> Value:
    x, y = w.input(b, n, 8, dtype=dtypes.u8), w.input(b, 8, n, name="y", dtype=dtypes.u8)
    return w.matmul(x, y)


def epilogues(w: Writer, b: int, n: int) -> Value:
    residual = w.input(b, 6, n, n, name="residual")
    x = w.op("add", w.conv(w.input(b, 3, n, n), (3, 6), w.weights(6)), residual)
    x = w.op("matmul", w.op("relu", x), w.input(n, n, name="y"), transpose_a=False, transpose_b=False)
    return w.op("sigmoid", w.op("mul", x, w.input(b, 1, 1, n, name="mask")))


def attention(w: Writer, b: int, n: int) -> Value:
    scores = w.op("mul", w.matmul(heads(w, "q", b, n), transpose(w, heads(w, "k", b, n), 0, 1, 3, 2)), w.constant(0.25))
    weights = w.op("softmax", w.op("add", scores, w.input(b, 1, 1, n, name="mask")), axis=-1)
    return transpose(w, w.matmul(weights, heads(w, "v", b, n)), 0, 2, 1, 3)


def shared(w: Writer, b: int, n: int) -> Value:
    k, v = (
        reshape(w, w.op("expand", reshape(w, heads(w, name, b, n), b, 3, 1, n, 8), w.sizes(b, 3, 2, n, 8)), b, 6, n, 8)
        for name in "kv"
    )
    q = transpose(w, w.input(b, n, 6, 8, name="q"), 0, 2, 1, 3)
    return w.matmul(w.op("softmax", w.matmul(q, transpose(w, k, 0, 1, 3, 2)), axis=-1), v)


def bags(w: Writer, b: int, n: int) -> Value:
    rows = w.op("gather", w.weights(4, 8), w.input(b * n, name="i", dtype=dtypes.i64), axis=0)
    weighted = w.op("mul", rows, w.input(b * n, 1, name="w"))
    return w.op("reduce_sum", reshape(w, weighted, b, n, 8), axes=(1,), keepdims=False)


def loops(w: Writer, b: int, n: int) -> Value:
    x = w.op("exp", w.input(b, n))
    x = w.op("add", w.op("mul", x, w.input(n, name="y")), w.input(b, 1, name="z"))
    return w.op("neg", w.op("add", x, w.constant([[1]])))


def reduced(w: Writer, b: int, n: int) -> Value:
    product = w.op("mul", w.input(b, n), w.op("add", w.input(b, n, name="y"), w.input(1, 1, name="z")))
    return w.op("reduce_sum", product, axes=(1,), keepdims=False)


def images(w: Writer, b: int, n: int) -> Value:
    x = w.conv(w.input(b, 3, n, n), (3, 32), size=3)
    gate = w.op("reduce_mean", x, axes=(2, 3), keepdims=True)
    x = w.op("concat", w.op("mul", x, w.op("sigmoid", gate)), x, axis=1)
    x = w.op("max_pool", x, kernel=(2, 2), strides=(1, 1), pads=(0, 0, 1, 1), dilations=(1, 1), ceil_mode=False)
    x = w.op("relu", w.op("add", w.conv(x, (64, 64)), x))
    return w.op("reduce_mean", x, axes=(2, 3), keepdims=False)


def rounded(w: Writer, b: int, n: int) -> Value:
    x = w.conv(w.op("relu", w.conv(w.input(b, 32, n, n), (32, 64), size=3)), (64, 32))
    return w.matmul(w.op("relu", w.matmul(reshape(w, x, -1, 8), w.weights(8, 16))), w.weights(16, 4))


def shuffled(w: Writer, b: int, n: int) -> Value:
    x = reshape(w, w.conv(w.input(b, 3, n, 5), (3, 32)), b, 2, 16, n, 5)
    x = reshape(w, transpose(w, x, 0, 2, 1, 3, 4), b, 32, n, 5)
    half = w.op("slice", x, w.ints(16), w.ints(32), w.ints(1), w.ints(1))
    return w.conv(w.op("concat", half, x, axis=1), (48, 8))


def shapes(w: Writer, b: int, n: int) -> Value:
    x = w.input(b, n, 6)
    known = w.op("shape", x, start=0, end=None)
    rows = w.op("mul", w.op("gather", known, w.ints(0), axis=0), w.op("gather", known, w.ints(1), axis=0))
    target = w.op("concat", rows, w.ints(2, -1), axis=0)
    return w.op("reshape", x, target, allowzero=False)


def normalized(w: Writer, b: int, n: int) -> Value:
    return layer_norm(w, w.input(b, n, 8))


SINK: list[Pass] = [SinkTransposes(), SimplifyTransposes(), SimplifyReshapes()] * 6
CHANNELS_FIRST = "conv reduce_mean mul reshape add mul concat pad conv"
ATTENTION: list[Pass] = [AbsorbTransposes(), AbsorbTransposes(), FuseEpilogue(), FuseAttention()]
ROUNDED: list[Pass] = [FuseEpilogue(), ChoosePrecision(), ChooseLayouts()]
LAYOUTS: list[Pass] = [FuseEpilogue(), GroupElementwise(), ChooseLayouts(), PickChannels()]

CASES: dict[str, tuple[Build, Sequence[Pass], str]] = {
    "fold_constants": (shapes, [FoldConstants()], "reshape"),
    "simplify_identities": (identities, [SimplifyIdentities()], "relu"),
    "simplify_broadcasts": (broadcasts, [SimplifyBroadcasts()], "add mul matmul"),
    "simplify_reshapes": (reshapes, [SimplifyReshapes()] * 3, "reshape"),
    "simplify_transposes": (transposes, [SimplifyTransposes()], "transpose"),
    "sink_transposes": (channels_last, SINK, CHANNELS_FIRST),
    "fold_pads": (pads, [FoldPads()], "conv"),
    "simplify_arithmetic": (arithmetic, [SimplifyArithmetic()] * 2, "mul mul neg"),
    "fold_batch_norm": (batch_norm, [FoldBatchNorm()], "conv"),
    "expand_conv_transpose": (
        enlarged,
        [ExpandConvTranspose()],
        "conv spread conv spread",
    ),
    "expand_einsum": (
        einsums,
        [ExpandEinsum()],
        "transpose transpose matmul reshape reshape matmul reshape transpose reshape matmul reshape transpose",
    ),
    "fuse_layer_norm": (normalized, [FuseLayerNorm()] * 3, "layer_norm"),
    "fuse_softmax": (softmax, [FuseSoftmax()], "softmax"),
    "fold_scales": (scales, [FoldScales()] * 2, "matmul conv reduce_mean reshape matmul mul add"),
    "absorb_transposes": (absorbed, [AbsorbTransposes()] * 3, "reshape reshape matmul"),
    "merge_common": (merged, [MergeCommon()], "reshape matmul"),
    "widen_bytes": (wide_bytes, [WidenBytes()], "cast cast matmul cast"),
    "fuse_epilogue": (epilogues, [FuseEpilogue()], "conv matmul"),
    "fuse_attention": (attention, ATTENTION, "reshape reshape reshape attention"),
    "share_heads": (shared, [SimplifyReshapes(), *ATTENTION, ShareHeads()], "reshape reshape attention"),
    "fuse_bags": (bags, [FuseBags()], "reshape reshape gather_reduce"),
    "group_elementwise": (loops, [GroupElementwise()], "elementwise"),
    "fuse_head": (reduced, [GroupElementwise(), FuseHead()], "reduce_sum"),
    "choose_layouts": (images, LAYOUTS, "conv reduce_mean elementwise elementwise concat max_pool conv reduce_mean"),
    "pick_channels": (shuffled, LAYOUTS, "conv pick_channels conv reorder"),
    "choose_precision": (rounded, ROUNDED, "elementwise reorder conv conv reorder reshape matmul matmul"),
}


def static_and_open(build: Build, passes: Sequence[Pass], context: PassContext) -> tuple[Graph, Graph, Facts]:
    """The graph for 3 and 20, and for symbols with these samples, both rewritten by `passes`; and what was assumed."""
    facts = Facts()
    graphs = []
    for b, n in ((3, 20), (facts.symbol("b", 3), facts.symbol("n", 20))):
        w = Writer()
        graph = w.done(build(w, b, n))
        for step in passes:
            step.run(graph, context)
        verify(graph, typed=True)
        graphs.append(graph)
    return graphs[0], graphs[1], facts


def signature(graph: Graph, values: Mapping[str, int]) -> list[tuple[object, ...]]:
    """What can be seen of the nodes: ops, attributes, and dtypes, layouts and shapes of the results."""
    return [
        (
            node.op,
            {name: value for name, value in node.attrs.items() if not isinstance(value, np.ndarray)},
            [(value.dtype, value.layout) for value in node.outputs],
            [tuple(evaluate_size(dim, dict(values)) for dim in value.static_shape) for value in node.outputs],
        )
        for node in computing(graph)
    ]


@pytest.mark.parametrize("name", CASES)
def test_open_sizes_are_rewritten_as_numbers_are(name: str) -> None:
    """
    The same nodes with the same attributes and layouts, and nothing assumed.
    """
    build, passes, wanted = CASES[name]
    context = PassContext(TARGET, precision="bf16")
    if name == "choose_precision":  # Winograd's algorithm, which competes with bf16, needs known sizes
        context = PassContext(BF16_TARGET, math="exact", precision="bf16")
    static, opened, facts = static_and_open(build, passes, context)

    assert " ".join(node.op for node in computing(static)) == wanted
    assert signature(opened, {"b": 3, "n": 20}) == signature(static, {})
    assert [str(guard) for guard in facts.guards] == []


@pytest.mark.parametrize("name", [name for name in CASES if name != "choose_precision"])
@pytest.mark.parametrize(("b", "n"), [(1, 1), (2, 7), (5, 33)])
def test_what_is_rewritten_once_computes_the_same_at_other_sizes(name: str, b: int, n: int) -> None:
    """
    Samples decide nothing that is wrong elsewhere.
    """
    build, passes, _ = CASES[name]
    _, opened, _ = static_and_open(build, passes, PassContext(TARGET))
    w = Writer()
    graph = w.done(build(w, b, n))
    inputs = random_inputs(graph)

    same_results(results(graph, inputs), results(bound(opened, {"b": b, "n": n}), inputs))


def test_a_slice_that_may_cut_stays() -> None:
    """
    All of an axis of 20 is left by a slice of 512, but not of every axis.
    """

    def build(w: Writer, b: int, n: int) -> Value:
        return w.op("slice", w.input(b, n), w.ints(0), w.ints(512), w.ints(1), w.ints(1))

    static, opened, facts = static_and_open(build, [SimplifyIdentities()], PassContext(TARGET))

    assert [len(graph.nodes) for graph in (static, opened)] == [0, 1]
    assert facts.guards == []
    w = Writer()
    graph = w.done(build(w, 2, 600))
    same_results(results(graph, random_inputs(graph)), results(bound(opened, {"b": 2, "n": 600}), random_inputs(graph)))


def test_a_sum_of_unknown_length_is_exact() -> None:
    """
    Products of bytes are summed in f32 only if no length can exceed what f32 adds exactly.
    """

    def build(w: Writer, b: int, n: int) -> Value:
        return w.matmul(w.input(b, n, dtype=dtypes.u8), w.input(n, b, name="y", dtype=dtypes.u8))

    static, opened, facts = static_and_open(build, [WidenBytes()], PassContext(TARGET))

    (known,), (unknown,) = ([node for node in graph.nodes if node.op == "matmul"] for graph in (static, opened))
    assert [known.operand(0).dtype, unknown.operand(0).dtype] == [dtypes.f32, dtypes.i32]
    assert facts.guards == []


def test_sizes_that_were_assumed_to_be_equal_are_equal() -> None:
    """
    An addition of two batches needs them to be one, so the epilogue of a product can read the other.
    """
    facts = Facts()
    w = Writer()
    x, y = (w.input(facts.symbol(name, 3), 8, name=name) for name in "xy")
    graph = w.done(w.op("add", w.matmul(x, w.weights(8, 8)), y))
    FuseEpilogue().run(graph, PassContext(TARGET))

    assert [node.op for node in graph.nodes] == ["matmul"]
    assert [str(guard) for guard in facts.guards] == ["x == y"]


@pytest.mark.parametrize(("queries", "ops"), [(20, ["attention"]), (1, ["matmul", "softmax", "matmul"])])
def test_samples_alone_decide_what_is_faster(queries: int, ops: list[str]) -> None:
    """
    One query would leave most of a vector empty. Either way is right for any number, so nothing is assumed.
    """
    facts = Facts()
    w = Writer()
    q = w.input(facts.symbol("b", 3), facts.symbol("queries", queries), 8, name="q")
    k, v = (w.input(facts.symbol("b", 3), facts.symbol("keys", 20), 8, name=name) for name in "kv")
    graph = w.done(w.matmul(w.op("softmax", w.matmul(q, k, transpose_b=True), axis=2), v))
    FuseAttention().run(graph, PassContext(TARGET))

    assert [node.op for node in graph.nodes] == ops
    assert facts.guards == []


def test_empty_keys_are_kept_from_attention_by_a_guard() -> None:
    """
    Weights are divided by their sum, which is 0 without keys.
    """
    facts = Facts()
    w = Writer()
    q = w.input(20, 8, name="q")
    k, v = (w.input(facts.symbol("keys", 20, least=0), 8, name=name) for name in "kv")
    graph = w.done(w.matmul(w.op("softmax", w.matmul(q, k, transpose_b=True), axis=1), v))
    FuseAttention().run(graph, PassContext(TARGET))

    assert [node.op for node in graph.nodes] == ["attention"]
    assert [str(guard) for guard in facts.guards] == ["keys >= 1"]
