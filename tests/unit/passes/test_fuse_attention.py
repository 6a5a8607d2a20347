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
