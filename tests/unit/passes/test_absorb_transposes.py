"""Matmul takes over the transposes around it."""

import pytest

from treadle.passes.absorb_transposes import AbsorbTransposes
from treadle.passes.simplify_transposes import SimplifyTransposes


def test_attention_needs_no_transpose(write, apply):
    """
    Head-splitting transposes of queries, keys, values and context are all absorbed.
    """
    q, k, v = (write.input(1, 6, 2, 4, name=name) for name in "qkv")
    queries = write.op("transpose", q, perm=(0, 2, 1, 3))
    keys = write.op("transpose", k, perm=(0, 2, 3, 1))
    values = write.op("transpose", v, perm=(0, 2, 1, 3))
    weights = write.op("softmax", write.matmul(queries, keys), axis=3)
    graph = write.done(write.op("transpose", write.matmul(weights, values), perm=(0, 2, 1, 3)))

    assert apply(graph, AbsorbTransposes()) == ["matmul", "softmax", "matmul"]
    first, _, last = graph.nodes
    assert first.attrs["a_perm"] == (0, 2, 1, 3)
    assert first.attrs["b_perm"] == (0, 2, 3, 1)
    assert last.attrs["out_perm"] == (0, 2, 1, 3)


@pytest.mark.parametrize("flag", [True, False])
def test_swap_of_the_last_axes_is_a_flag(write, apply, flag):
    """
    A transpose of the last two axes sets, or clears, the flag for it.
    """
    a, b = write.input(2, 3, 4), write.input(2, 5, 4, name="b")
    b = b if flag else write.op("transpose", b, perm=(0, 2, 1))
    b = write.op("transpose", b, perm=(0, 2, 1))
    graph = write.done(write.matmul(a, b, transpose_b=not flag))

    assert apply(graph, SimplifyTransposes(), AbsorbTransposes())[-1] == "matmul"
    assert graph.nodes[-1].attrs.get("b_perm") is None
    assert graph.nodes[-1].attrs["transpose_b"]


def test_flag_joins_the_permutation(write, apply):
    """
    A permuted operand has its transpose flag off: the permutation says all.
    """
    a = write.op("transpose", write.input(4, 2, 3), perm=(1, 0, 2))
    graph = write.done(write.matmul(a, write.weights(2, 4, 5), transpose_a=True))

    assert apply(graph, AbsorbTransposes()) == ["matmul"]
    assert graph.nodes[0].attrs["a_perm"] == (1, 2, 0)
    assert not graph.nodes[0].attrs["transpose_a"]


def test_scattered_matrices_are_not_absorbed(write, apply):
    """
    A permutation that puts the contiguous axis among the batch axes stays a transpose.
    """
    a = write.op("transpose", write.input(3, 4, 2), perm=(2, 0, 1))
    graph = write.done(write.matmul(a, write.weights(2, 4, 5)))

    assert apply(graph, AbsorbTransposes()) == ["transpose", "matmul"]


def test_transposed_columns_stay(write, apply):
    """
    A transpose that moves the columns of the product is not absorbed.
    """
    y = write.matmul(write.input(2, 3, 4), write.weights(4, 5))
    graph = write.done(write.op("transpose", y, perm=(0, 2, 1)))

    assert apply(graph, AbsorbTransposes()) == ["matmul", "transpose"]


def test_product_read_elsewhere_is_not_permuted(write, apply):
    """
    A product that something else reads keeps its order of axes.
    """
    y = write.matmul(write.input(2, 3, 4), write.weights(4, 5))
    graph = write.done(write.op("transpose", y, perm=(1, 0, 2)), write.op("exp", y))

    assert apply(graph, AbsorbTransposes()) == ["matmul", "transpose", "exp"]
