"""Heads of keys and values that were repeated for several heads of queries are read where they are."""

from __future__ import annotations

import pytest

from treadle import dtypes
from treadle.passes.absorb_transposes import AbsorbTransposes
from treadle.passes.fuse_attention import FuseAttention
from treadle.passes.share_heads import ShareHeads
from treadle.passes.simplify_reshapes import SimplifyReshapes

PASSES = (SimplifyReshapes(), AbsorbTransposes(), FuseAttention(), ShareHeads())


def repeated(write, heads, times, wide=None, axis=2):
    """`heads` [2, 2, 10, 8], each of them `times` times."""
    shape = [2, 2, 10, 8]
    shape.insert(axis, 1)
    small = write.op("reshape", heads, write.ints(*shape), allowzero=False)
    shape[axis] = times
    large = write.op("expand", small, write.ints(*shape))
    return write.op("reshape", large, write.ints(*(wide or (2, 2 * times, 10, 8))), allowzero=False)


def attended(write, q, k, v):
    weights = write.op("softmax", write.matmul(q, k, transpose_b=True), axis=-1)
    return write.matmul(weights, v)


def test_repeated_heads_are_read_where_they_are(write, apply):
    """
    Neither keys nor values are copied; what stood before the repetition is read by strides.
    """
    q = write.input(2, 6, 12, 8, name="q")
    k = write.op("transpose", write.input(2, 10, 2, 8, name="k"), perm=(0, 2, 1, 3))
    v = write.op("transpose", write.input(10, 2, 2, 8, name="v"), perm=(1, 2, 0, 3))
    graph = write.done(attended(write, q, repeated(write, k, 3), repeated(write, v, 3)))

    assert apply(graph, *PASSES) == ["attention"]
    assert graph.nodes[0].attrs == {"k_perm": (0, 2, 1, 3), "v_perm": (1, 2, 0, 3), "repeats": 3}


def test_heads_are_cast_before_they_are_repeated(write, apply):
    """
    Keys and values of f16 are widened once, not for each head of queries.
    """
    q = write.input(2, 6, 12, 8, name="q")
    k, v = (write.input(2, 2, 10, 8, name=name, dtype=dtypes.f16) for name in "kv")
    wide = (write.op("cast", repeated(write, each, 3), to=dtypes.f32) for each in (k, v))
    graph = write.done(attended(write, q, *wide))

    assert apply(graph, *PASSES) == ["cast", "cast", "attention"]
    assert [node.operand(0) for node in graph.nodes[:2]] == [k, v]


def test_heads_of_another_shape_are_reshaped(write, apply):
    """
    A reshape needs no copy.
    """
    q = write.input(2, 6, 12, 8, name="q")
    k, v = (write.input(4, 80, name=name) for name in "kv")
    graph = write.done(attended(write, q, repeated(write, k, 3), repeated(write, v, 3)))

    assert apply(graph, *PASSES) == ["reshape", "reshape", "attention"]


@pytest.mark.parametrize("other", ["values have more heads", "one head of queries", "another order"])
def test_other_repetitions_stay(write, apply, other):
    """
    Both must be repeated alike, head by head, for as many heads as the queries have.
    """
    k, v = (write.input(2, 2, 10, 8, name=name) for name in "kv")
    q = write.input(2, 1 if other == "one head of queries" else 6, 12, 8, name="q")
    values = write.input(2, 6, 10, 8, name="w") if other == "values have more heads" else repeated(write, v, 3)
    keys = repeated(write, k, 3, axis=1 if other == "another order" else 2)
    graph = write.done(attended(write, q, keys, values))

    assert "expand" in apply(graph, *PASSES)
    assert all("repeats" not in node.attrs for node in graph.nodes)
