"""The whole pipeline: what it leaves, and what the manager does around it."""

import numpy as np
import pytest

from treadle import dtypes
from treadle.errors import InternalError
from treadle.passes.base import PassContext
from treadle.passes.manager import Manager
from treadle.passes.pipeline import FUSE, INFER, LAYOUT, SIMPLIFY, optimize
from treadle.passes.specialize import copy_graph

UNARY = ("neg", "abs", "relu", "tanh", "sigmoid")
BINARY = ("add", "sub", "mul", "max")


def test_residual_block_becomes_convolutions(write, same, context):
    """
    Convolutions, batch norms, additions and activations become convolutions with epilogues alone.
    """
    x = write.input(1, 4, 6, 6)
    y = x
    for _ in range(2):
        stats = [write.weights(4), write.weights(4), write.weights(4), write.constant(np.ones(4))]
        y = write.op("batch_norm", write.conv(y, (4, 4), size=3), *stats, epsilon=1e-5)
        y = write.op("relu", y)
    y = write.op("relu", write.op("add", write.conv(y, (4, 4)), x))
    graph = write.done(write.op("flatten", write.op("reduce_mean", y, axes=(2, 3), keepdims=True), axis=1))
    before = copy_graph(graph)

    assert optimize(graph, context) is graph
    same(before, graph)
    ops = [node.op for node in graph.nodes if node.op != "reorder"]
    assert ops == ["conv", "conv", "conv", "reduce_mean", "reshape"]
    assert all("epilogue" in node.attrs for node in graph.nodes if node.op == "conv")


def test_attention_becomes_one_node_between_matmuls(write, same, context):
    """
    One attention layer as exporters write it: no transpose, factor or addition is left alone.
    """
    x = write.input(1, 6, 8)
    heads = []
    for perm in ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3)):
        y = write.op("add", write.matmul(x, write.weights(8, 8)), write.weights(8))
        y = write.op("reshape", y, write.ints(1, 6, 2, 4), allowzero=False)
        y = write.op("transpose", y, perm=perm)
        heads.append(write.op("mul", y, write.constant(0.7)))
    scores = write.op("add", write.matmul(heads[0], heads[1]), write.constant(np.zeros((1, 1, 6, 6))))
    y = write.matmul(write.op("softmax", scores, axis=3), heads[2])
    y = write.op("reshape", write.op("transpose", y, perm=(0, 2, 1, 3)), write.ints(1, 6, 8), allowzero=False)
    y = write.op("add", write.matmul(y, write.weights(8, 8)), x)
    graph = write.done(y)
    before = copy_graph(graph)

    optimize(graph, context)
    same(before, graph)
    ops = [node.op for node in graph.nodes]
    assert sorted(ops) == ["attention"] + ["matmul"] * 4 + ["reshape"] * 4


def random_graph(write, seed):
    """
    A graph of a dozen ops on [2, 3, 4, 4] tensors: scalar ops, convolutions, matmuls, transposes, reductions.
    """
    rng = np.random.default_rng(seed)
    write.rng = rng
    values = [write.input(2, 3, 4, 4), write.input(2, 3, 4, 4, name="y")]

    def pick():
        return values[-1 - int(rng.integers(0, min(4, len(values))))]

    def constant():
        shape = [(), (1,), (3, 1, 1), (4,), (1, 3, 1, 1), (2, 3, 4, 4)][rng.integers(0, 6)]
        data = rng.integers(0, 3, shape) if rng.random() < 0.5 else rng.standard_normal(shape)
        return write.constant(data)

    makers = [
        lambda: write.op(UNARY[rng.integers(0, len(UNARY))], pick()),
        lambda: write.op(BINARY[rng.integers(0, len(BINARY))], pick(), pick()),
        lambda: write.op(BINARY[rng.integers(0, len(BINARY))], pick(), constant()),
        lambda: write.op("mul", pick(), write.constant(0.5)),
        lambda: write.op("div", pick(), write.constant(rng.choice([3.0, 4.0]))),
        lambda: write.op("where", write.op("gt", pick(), constant()), pick(), pick()),
        lambda: write.op("clip", pick(), write.constant(-1), write.constant(1)),
        lambda: write.op("cast", write.op("cast", pick(), to=dtypes.f64), to=dtypes.f32),
        lambda: write.conv(pick(), (3, 3), write.weights(3) if rng.random() < 0.5 else None, size=3),
        lambda: write.matmul(pick(), write.weights(4, 4)),
        lambda: write.matmul(pick(), pick(), transpose_b=bool(rng.random() < 0.5)),
        lambda: write.op("transpose", write.op("transpose", pick(), perm=(0, 1, 3, 2)), perm=(0, 1, 3, 2)),
        lambda: write.op("transpose", pick(), perm=(0, 1, 3, 2)),
        lambda: write.op("softmax", pick(), axis=3),
        lambda: write.op("add", pick(), write.op("reduce_mean", pick(), axes=(2, 3), keepdims=True)),
        lambda: write.op(
            "batch_norm", pick(), *(write.weights(3) for _ in range(3)), write.constant([1, 2, 3]), epsilon=1e-3
        ),
        lambda: write.op(
            "reshape",
            write.op("flatten", pick(), axis=1),
            write.op("shape", pick()),
            allowzero=False,
        ),
    ]
    for _ in range(int(rng.integers(3, 16))):
        values.append(makers[rng.integers(0, len(makers))]())
        if rng.random() < 0.5:
            # Keeps numbers small, so that a relative tolerance means something.
            values.append(write.op("tanh", values.pop()))
    return write.done(*(write.op("tanh", pick()) for _ in range(int(rng.integers(1, 4)))))


@pytest.mark.parametrize("math", ["fast", "exact"])
@pytest.mark.parametrize("seed", range(80))
def test_random_graphs_keep_their_meaning(write, same, context, seed, math, monkeypatch):
    """
    Whatever the graph, the optimised one is valid after every pass and computes the same.
    """
    monkeypatch.setenv("TREADLE_DEBUG", "1")
    graph = random_graph(write, seed)
    before = copy_graph(graph)

    optimize(graph, PassContext(context.target, math=math))
    same(before, graph)
    assert [len(before.inputs), len(before.outputs)] == [len(graph.inputs), len(graph.outputs)]
    left = {node.op for node in graph.nodes}
    assert not left & {*UNARY, *BINARY, "where", "clip", "cast", "flatten", "shape", "batch_norm"}


def test_second_run_changes_nothing(write, context):
    """
    An optimised graph is a fixed point of the simplifications.
    """
    graph = random_graph(write, 5)
    manager = Manager(context)
    manager.run(graph, INFER)
    manager.run_until_stable(graph, SIMPLIFY)
    manager.run(graph, FUSE)

    assert not manager.run(graph, [*SIMPLIFY, *FUSE])


def test_every_pass_has_a_reason():
    """
    Names are unique, and each line of the pipeline says why it stands there.
    """
    steps = [*SIMPLIFY, *FUSE, *LAYOUT]

    assert all(reason for _, reason in [*INFER, *steps])
    assert len({step.name for step, _ in steps}) == len(steps)


class Breaking:
    """
    A pass with a fault: it leaves a node that reads a value which is made later.
    """

    name = "breaking"

    def run(self, graph, context):
        graph.nodes.reverse()
        return True


@pytest.mark.parametrize("level", ["0", "1"])
def test_broken_graph_names_the_pass(write, context, monkeypatch, level):
    """
    A fault of a pass is treadle's own: under TREADLE_DEBUG=1 the error names the pass.
    """
    monkeypatch.setenv("TREADLE_DEBUG", level)
    graph = write.done(write.op("exp", write.op("neg", write.input(3))))
    manager = Manager(context)

    if level == "0":
        assert manager.run(graph, [(Breaking(), "a test")])
    else:
        with pytest.raises(InternalError, match="after pass breaking"):
            manager.run(graph, [(Breaking(), "a test")])


def test_graphs_are_printed_on_demand(write, context, monkeypatch, capsys):
    """
    TREADLE_DEBUG=2 prints the graph after each pass that changed it, to stderr.
    """
    monkeypatch.setenv("TREADLE_DEBUG", "2")
    graph = write.done(write.op("exp", write.op("identity", write.input(3))))

    optimize(graph, context)
    printed = capsys.readouterr()
    assert "--- after simplify_identities" in printed.err
    assert "--- after merge_common" not in printed.err
    assert printed.out == ""


def test_passes_are_timed(write, context):
    """
    The manager records how often each pass ran, changed the graph, and for how long.
    """
    manager = Manager(context)
    optimize(write.done(write.op("exp", write.op("identity", write.input(3)))), context, manager)

    record = manager.records["simplify_identities"]
    assert record.runs == 2
    assert record.changes == 1
    assert record.seconds > 0
