"""What is known before the run is computed before it."""

import numpy as np
import pytest

from treadle import dtypes
from treadle.errors import ShapeError
from treadle.passes.base import Limits, PassContext
from treadle.passes.fold_constants import FoldConstants


def test_shape_arithmetic_folds_away(write, context):
    """
    A reshape whose target is computed from another value's shape has a constant target.
    """
    x = write.input(2, 3, 4)
    batch = write.op("gather", write.op("shape", x), write.ints(0), axis=0)
    target = write.op("concat", batch, write.ints(-1), axis=0)
    y = write.op("reshape", x, target, allowzero=False)
    graph = write.graph
    graph.outputs = [y]

    FoldConstants().run(graph, context)
    assert [node.op for node in graph.nodes] == ["reshape"]
    assert y.shape == (2, 12)


def test_shape_of_unused_computation(write, apply):
    """
    A value of which only the shape is used is not computed.
    """
    x = write.input(2, 3)
    size = write.op("size", write.op("exp", x))
    graph = write.done(write.op("mul", write.op("cast", size, to=dtypes.f32), x))

    assert apply(graph, FoldConstants()) == ["mul"]


def test_elements_of_large_constants_are_not_looked_at(write, apply, monkeypatch):
    """
    A folded array of numbers becomes a constant as it is, instead of a Python object an element.
    """
    seen = []
    monkeypatch.setattr("treadle.ops.sizes.is_expression", seen.append)
    weights = write.op("cast", write.op("transpose", write.ints(*range(2000)), perm=(0,)), to=dtypes.f32)
    y = write.op("add", write.input(2000), weights)
    graph = write.done(y)

    assert apply(graph, FoldConstants()) == ["add"]
    (constant,) = (value.data for value in graph.constants() if value.dtype == dtypes.f32)
    assert constant.tolist() == list(range(2000))
    assert not seen


def test_large_results_are_not_folded(write, apply, context):
    """
    A result beyond the budget stays a node.
    """
    context = PassContext(context.target, limits=Limits(fold_small=1000))
    small = write.op("expand", write.constant([0.0]), write.ints(100))
    large = write.op("expand", write.constant([0.0]), write.ints(4000))
    x = write.input(1)
    graph = write.done(write.op("add", x, small), write.op("add", x, large))

    assert apply(graph, FoldConstants(), context=context) == ["expand", "add", "add"]


def test_no_work_left_no_folding(write, apply, context):
    """
    When the work that is granted is done, nodes are left as they are.
    """
    context = PassContext(context.target, limits=Limits(fold_work=3))
    graph = write.done(write.op("add", write.input(2), write.op("exp", write.constant([1, 2]))))

    assert apply(graph, FoldConstants(), context=context) == ["exp", "add"]


def test_products_of_matrices_count(write, apply, context):
    """
    A product of matrices costs its multiplications, not only its numbers.
    """
    graph = write.done(write.op("matmul", write.weights(8, 100), write.weights(100, 8)))
    left = PassContext(context.target, limits=Limits(fold_work=2 * 800 + 64 * 99))
    enough = PassContext(context.target, limits=Limits(fold_work=2 * 800 + 64 * 100))

    assert apply(graph, FoldConstants(), context=left) == ["matmul"]
    assert apply(graph, FoldConstants(), context=enough) == []


def test_a_transposed_factor_counts_as_it_is_multiplied(write, apply, context):
    """
    Its depth is the number of its rows.
    """
    graph = write.done(write.op("matmul", write.weights(100, 8), write.weights(100, 8), transpose_a=True))
    left = PassContext(context.target, limits=Limits(fold_work=2 * 800 + 64 * 99))
    enough = PassContext(context.target, limits=Limits(fold_work=2 * 800 + 64 * 100))

    assert apply(graph, FoldConstants(), context=left) == ["matmul"]
    assert apply(graph, FoldConstants(), context=enough) == []


def test_a_slow_machine_folds_the_same(write, apply, context, monkeypatch):
    """
    Plans do not depend on how long folding takes.
    """
    ticks = iter(range(0, 1 << 40, 1000))
    monkeypatch.setattr("time.monotonic", lambda: float(next(ticks)))
    graph = write.done(write.op("add", write.input(2), write.op("exp", write.constant([1, 2]))))

    assert apply(graph, FoldConstants(), context=context) == ["add"]


@pytest.mark.parametrize("pure", [True, False])
def test_calls_fold_only_if_pure(write, context, pure):
    """
    A Python function of constants is called at compile time only if it is declared pure.
    """
    calls = []

    def function(arrays):
        calls.append(1)
        return [arrays[0] + 1]

    called = write.op(
        "call", write.constant([1, 2]), function=function, infer=list, blocking=False, label="f", pure=pure
    )
    graph = write.done(write.op("add", write.input(2), called))

    FoldConstants().run(graph, context)
    assert [node.op for node in graph.nodes] == (["add"] if pure else ["call", "add"])
    assert len(calls) == int(pure)


def test_outputs_may_be_constants(write, apply):
    """
    An output that does not depend on the inputs becomes a constant under the same name.
    """
    y = write.op("exp", write.constant([1.0]))
    name = y.name
    graph = write.done(y)

    assert apply(graph, FoldConstants()) == []
    assert graph.outputs[0].is_constant
    assert graph.outputs[0].name == name


def test_scalars_keep_rank_zero(write, apply):
    """
    A folded scalar is not turned into a vector.
    """
    graph = write.done(write.op("exp", write.constant(1.0)))

    apply(graph, FoldConstants())
    assert graph.outputs[0].data.shape == ()


def test_misfit_names_the_node(write, context):
    """
    Operands that do not fit are an error that names the node.
    """
    y = write.op("add", write.input(2), write.constant(np.zeros(3)), name="bad sum")
    write.graph.outputs = [y]

    with pytest.raises(ShapeError, match="bad sum"):
        FoldConstants().run(write.graph, context)
