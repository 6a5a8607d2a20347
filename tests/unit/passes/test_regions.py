"""Graphs are cut where shapes depend on data, and the parts together compute the whole."""

import numpy as np
import pytest

from treadle import dtypes
from treadle.ops.evaluate import evaluate, results_of
from treadle.passes.infer_shapes import InferShapes
from treadle.passes.regions import first_region
from treadle.passes.specialize import specialize


def run_in_regions(graph, inputs, context):
    """
    The outputs of `graph` by name, and into how many regions it was cut.
    """
    known = dict(inputs)
    wanted = [value.name for value in graph.outputs]
    count = 0
    while graph is not None:
        count += 1
        names = [value.name for value in graph.inputs]
        shapes = {name: known[name].shape for name in names}
        graph = specialize(graph, shapes, {name: dtypes.from_numpy(known[name].dtype) for name in names})
        InferShapes().run(graph, context)
        region = first_region(graph)
        results = evaluate(region.graph, {value.name: known[value.name] for value in region.graph.inputs})
        known.update(zip(region.keeps, (results[value.name] for value in region.graph.outputs), strict=True))
        for node in region.dynamic:
            arrays = [v if v is None else known[v.name] if v.data is None else v.data for v in node.inputs]
            known.update(zip((v.name for v in node.outputs), results_of(node, arrays), strict=True))
        known.update({name: value.data for name, value in region.constants.items()})
        graph = region.rest
    return {name: known[name] for name in wanted}, count


def test_static_graph_is_one_region(write):
    """
    Without data-dependent shapes the region is the graph itself.
    """
    graph = write.done(write.op("exp", write.input(3)))
    region = first_region(graph)

    assert region.graph is graph
    assert region.rest is None
    assert region.keeps == (graph.outputs[0].name,)


def test_non_zero_cuts_the_graph(write, context):
    """
    What follows non_zero is planned once its result is known; what does not depend on it stays in front.
    """
    x = write.input(4, 3)
    found = write.op("counted", *write.node("non_zero", write.op("relu", x), outputs=2).outputs, axis=1)
    picked = write.op("gather_nd", write.op("exp", x), write.op("transpose", found, perm=(1, 0)), batch_dims=0)
    graph = write.done(write.op("reduce_sum", picked, axes=None, keepdims=False), write.op("neg", x))
    region = first_region(graph)

    assert sorted(node.op for node in region.graph.nodes) == ["exp", "neg", "non_zero", "relu"]
    assert [node.op for node in region.dynamic] == ["counted"]
    assert [node.op for node in region.rest.nodes] == ["transpose", "gather_nd", "reduce_sum"]
    data = np.random.default_rng(3).standard_normal((4, 3)).astype(np.float32)
    got, count = run_in_regions(graph, {"x": data}, context)
    wanted = evaluate(graph, {"x": data})
    assert count == 2
    for name, array in wanted.items():
        np.testing.assert_allclose(got[name], array, rtol=1e-6)


@pytest.mark.parametrize("typed", [True, False])
def test_calls_without_a_shape_rule_cut_the_graph(write, context, typed):
    """
    A function whose results are unknown cuts the graph, twice in a row here, whether or not their types are stated.
    """

    def call(value):
        node = write.node(
            "call", value, function=lambda arrays: [arrays[0][1:]], infer=None, blocking=False, label="drop"
        )
        if typed:
            node.output.dtype = dtypes.f32
        return node.output

    x = write.input(5)
    y = write.op("exp", call(write.op("neg", call(write.op("relu", x)))))
    graph = write.done(y, write.op("add", x, write.constant(1)), write.constant([1.0]))
    data = np.arange(-2, 3).astype(np.float32)

    got, count = run_in_regions(graph, {"x": data}, context)
    assert count == 3
    np.testing.assert_allclose(got[y.name], np.exp(-np.maximum(data, 0)[1:])[1:], rtol=1e-6)
    assert len(got) == 3


def test_dynamic_output(write, context):
    """
    A data-dependent value may be an output of the whole, and nothing may come after it.
    """
    y = write.op("counted", *write.node("non_zero", write.input(6), outputs=2).outputs, axis=1)
    graph = write.done(y)
    data = np.array([0, 1, 0, 2, 0, 3], np.float32)

    got, count = run_in_regions(graph, {"x": data}, context)
    assert count == 1
    assert got[y.name].tolist() == [[1, 3, 5]]
