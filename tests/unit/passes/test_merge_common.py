"""What is written twice is computed once."""

import numpy as np

from treadle.passes.merge_common import MergeCommon
from treadle.passes.remove_dead import RemoveDead


def test_equal_nodes_merge(write, apply):
    """
    Two nodes with the same op, operands and attributes become one, and so do the nodes that read them.
    """
    x = write.input(2, 3)
    left = write.op("exp", write.op("transpose", x, perm=(1, 0)))
    right = write.op("exp", write.op("transpose", x, perm=(1, 0)))
    graph = write.done(write.op("add", left, right))

    assert apply(graph, MergeCommon()) == ["transpose", "exp", "add"]


def test_attributes_tell_nodes_apart(write, apply):
    """
    Nodes with different attributes stay apart, even where Python calls the attributes equal.
    """
    x = write.input(2, 3)
    sums = [write.op("reduce_sum", x, axes=(1,), keepdims=keep) for keep in (True, False)]
    graph = write.done(write.op("add", *sums))

    assert apply(graph, MergeCommon()) == ["reduce_sum", "reduce_sum", "add"]


def test_equal_constants_merge(write, apply):
    """
    Small constants of the same contents are one, so nodes that read them can merge.
    """
    x = write.input(3)
    left, right = (write.op("mul", x, write.constant([1, 2, 3])) for _ in range(2))
    graph = write.done(write.op("add", left, right))

    assert apply(graph, MergeCommon()) == ["mul", "add"]


def test_constants_of_other_types_stay(write, apply):
    """
    Zeros of different types or signs are different constants.
    """
    x = write.input(1)
    values = [write.op("div", x, write.constant([zero])) for zero in (0.0, -0.0)]
    graph = write.done(*(write.op("lt", value, x) for value in values))

    assert apply(graph, MergeCommon()) == ["div", "div", "lt", "lt"]


def test_functions_never_merge(write, apply):
    """
    Two calls of a function stay two: it may have effects.
    """
    x = write.input(3)

    def call():
        return write.op("call", x, function=lambda arrays: arrays, infer=list, blocking=False, label="f")

    graph = write.done(write.op("add", call(), call()))

    assert apply(graph, MergeCommon()) == ["call", "call", "add"]


def test_outputs_stay_apart(write, apply):
    """
    Two outputs that compute the same keep their own values and names.
    """
    x = write.input(3)
    graph = write.done(write.op("exp", x), write.op("exp", x))

    assert apply(graph, MergeCommon()) == ["exp", "exp"]


def test_dead_nodes_go(write, apply):
    """
    Nodes that no output depends on are removed, with those that only they needed.
    """
    x = write.input(3)
    write.op("neg", write.op("exp", x))
    graph = write.done(write.op("add", x, write.constant(np.ones(3))))

    assert apply(graph, RemoveDead()) == ["add"]
    assert len(x.users) == 1
