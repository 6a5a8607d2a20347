"""The two products of attention and the softmax between them become one node."""

import numpy as np
import pytest

from treadle import dtypes
from treadle.passes.absorb_transposes import AbsorbTransposes
from treadle.passes.fuse_attention import FuseAttention
from treadle.passes.fuse_epilogue import FuseEpilogue

PASSES = (AbsorbTransposes(), AbsorbTransposes(), FuseEpilogue(), FuseAttention())


def by_heads(write, name, tokens, swapped=False):
    perm = (0, 2, 3, 1) if swapped else (0, 2, 1, 3)
    return write.op("transpose", write.input(2, tokens, 3, 8, name=name), perm=perm)


def scores_of(write, queries=12):
    return write.matmul(by_heads(write, "q", queries), by_heads(write, "k", 10, swapped=True))


@pytest.mark.parametrize("mask", [None, (2, 1, 1, 10), (1, 1, 12, 10)])
def test_scaled_and_masked_scores_are_never_stored(write, apply, mask):
    """
    Transposes, scale and mask become attributes and operands of the one node.
    """
    scores = write.op("mul", scores_of(write), write.constant(0.25))
    if mask is not None:
        scores = write.op("add", scores, write.input(*mask, name="mask"))
    weights = write.op("softmax", scores, axis=-1)
    y = write.op("transpose", write.matmul(weights, by_heads(write, "v", 10)), perm=(0, 2, 1, 3))
    graph = write.done(y)

    assert apply(graph, *PASSES) == ["attention"]
    assert len(graph.nodes[0].inputs) == 3 + (mask is not None)


def test_untransposed_operands_need_no_permutation(write, apply):
    """
    q @ k.T with the transposition in the product's own flag.
    """
    q, k, v = (write.input(3, 16, 8, name=name) for name in "qkv")
    graph = write.done(write.matmul(write.op("softmax", write.matmul(q, k, transpose_b=True), axis=2), v))

    assert apply(graph, *PASSES) == ["attention"]
    assert set(graph.nodes[0].attrs) == set()


def test_a_boolean_mask_may_choose_the_scores(write, apply):
    """
    where(mask, scores, -inf) is an epilogue like any other.
    """
    mask = write.constant(np.tril(np.ones((12, 10), bool)), bool)
    chosen = write.op("where", mask, scores_of(write), write.constant(-1e9))
    graph = write.done(write.matmul(write.op("softmax", chosen, axis=3), by_heads(write, "v", 10)))

    assert apply(graph, *PASSES) == ["attention"]
    assert graph.nodes[0].inputs[3].dtype == dtypes.boolean


def test_rows_without_keys_keep_their_meaning(write, apply):
    """
    A softmax that gives 0 where all scores are -inf makes an attention that does.
    """
    weights = write.op("softmax", scores_of(write), axis=3, safe=True)
    graph = write.done(write.matmul(weights, by_heads(write, "v", 10)))

    assert apply(graph, *PASSES) == ["attention"]
    assert graph.nodes[0].attrs["safe"]


@pytest.mark.parametrize("read", ["scores", "weights"])
def test_what_others_read_stays(write, apply, read):
    """
    Scores or weights that are results too are computed as a whole.
    """
    scores = scores_of(write)
    weights = write.op("softmax", scores, axis=3)
    y = write.matmul(weights, by_heads(write, "v", 10))
    graph = write.done(y, scores if read == "scores" else weights)

    assert "attention" not in apply(graph, *PASSES)


def test_a_single_query_stays_two_products(write, apply):
    """
    The kernel fills vectors with queries: one alone would leave them nearly empty.
    """
    weights = write.op("softmax", scores_of(write, queries=1), axis=3)
    graph = write.done(write.matmul(weights, by_heads(write, "v", 10)))

    assert "attention" not in apply(graph, *PASSES)


def test_exact_math_keeps_the_order(write, apply, exact):
    """
    Under exact math weights are divided by their sum before they are used.
    """
    graph = write.done(write.matmul(write.op("softmax", scores_of(write), axis=3), by_heads(write, "v", 10)))

    assert "attention" not in apply(graph, *PASSES, context=exact)


@pytest.mark.parametrize("end", [-1, 10])
def test_a_sink_takes_a_part_of_the_weights(write, apply, end):
    """
    One more score for each head, whose weight is left out, becomes an operand.
    """
    sink = write.op("expand", write.input(3, 1, 1, name="sink"), write.ints(2, 3, 12, 1))
    weights = write.op("softmax", write.op("concat", scores_of(write), sink, axis=-1), axis=-1)
    cut = write.op("slice", weights, write.ints(0), write.ints(end), write.ints(3))
    graph = write.done(write.matmul(cut, by_heads(write, "v", 10)))

    assert apply(graph, *PASSES) == ["attention"]
    assert graph.nodes[0].attrs["sink"]


@pytest.mark.parametrize("start", [0, 1])
def test_other_parts_of_the_weights_stay(write, apply, start):
    """
    A score that varies from query to query is no sink, nor is the first one.
    """
    extra = write.input(2, 3, 1 if start else 12, 1, name="extra")
    extra = write.op("expand", extra, write.ints(2, 3, 12, 1)) if start else extra
    weights = write.op("softmax", write.op("concat", scores_of(write), extra, axis=-1), axis=-1)
    cut = write.op("slice", weights, write.ints(start), write.ints(start + 10), write.ints(3))
    graph = write.done(write.matmul(cut, by_heads(write, "v", 10)))

    assert "attention" not in apply(graph, *PASSES)


@pytest.mark.parametrize("queries", [1, 12])
def test_values_that_no_query_sees_are_not_cleared(write, apply, queries):
    """
    Where the mask hides keys, attention reads their values as they are, however few the queries.
    """
    seen = write.input(10, name="seen", dtype=dtypes.boolean)
    rows = write.op("reshape", seen, write.ints(10, 1), allowzero=False)
    chosen = write.op("where", seen, scores_of(write, queries), write.constant(-1e38))
    v = write.op("where", rows, by_heads(write, "v", 10), write.constant(0), unseen=True)
    graph = write.done(write.matmul(write.op("softmax", chosen, axis=3), v))

    assert [op for op in apply(graph, *PASSES) if op not in ("reshape", "transpose")] == ["attention"]
