"""Joins the parts of a graph that sizes that depend on data separate: the part behind them becomes a node."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from treadle.errors import TreadleError
from treadle.graph.facts import Facts
from treadle.graph.graph import Graph
from treadle.graph.value import Value
from treadle.passes.base import PassContext
from treadle.passes.pipeline import infer
from treadle.passes.regions import Region, first_region, named_shape
from treadle.passes.specialize import copy_graph, specialize_open
from treadle.runtime.data_stage import DataStage


@dataclass(frozen=True, slots=True)
class Behind:
    """The graph behind sizes that depend on data. The sizes are the open dimensions of its inputs, by name."""

    graph: Graph
    sizes: tuple[str, ...]


def join_stages(
    graph: Graph, region: Region, context: PassContext, stage_of: Callable[[Behind], DataStage]
) -> Graph | None:
    """The first `region` of `graph` with a node that runs all the rest; None if that cannot be compiled before the run.

    Args:
        graph: A graph whose shapes were inferred.
        region: Its first region, whose graph is used up.
        context: What inference asks for.
        stage_of: Makes what runs the rest.
    """
    if any(node.op != "counted" for node in region.dynamic):
        return None
    known = {value.name: value for value in region.graph.inputs}
    known |= dict(zip(region.keeps, region.graph.outputs, strict=True))
    for name, value in region.constants.items():
        if value.data is not None:
            known[name] = region.graph.constant(value.data, name)
    rest = _rest_with_outputs(graph, region, known)
    if rest is None or not _is_planned(rest, context):
        return None
    counted = {node.output.name: node for node in region.dynamic}
    sizes = tuple(value.name for value in rest.inputs if value.name in counted)
    numbers = [known[counted[name].operand(1).name] for name in sizes]
    operands = [known[counted[v.name].operand(0).name if v.name in counted else v.name] for v in rest.inputs]
    attrs = {
        "stage": stage_of(Behind(rest, sizes)),
        "sizes": len(sizes),
        "dtypes": tuple(value.known_dtype for value in rest.outputs),
    }
    joined = region.graph
    node = joined.add(
        "data_stage", [*numbers, *operands], attrs, name=region.dynamic[0].name, outputs=len(rest.outputs)
    )
    results = iter(node.outputs)
    joined.outputs = [known[v.name] if v.name in known else next(results) for v in graph.outputs]
    return joined


def _rest_with_outputs(graph: Graph, region: Region, known: dict[str, Value]) -> Graph | None:
    """What is behind the region with all outputs of the whole that are not `known`, in order; None without any.

    It is a copy: where it cannot be planned, the graph runs in stages.
    """
    rest = Graph(f"{graph.name}.rest") if region.rest is None else copy_graph(region.rest)
    made = dict(zip(region.rest_outputs, rest.outputs, strict=True))
    made |= {value.name: value for value in rest.inputs}
    for node in region.dynamic:
        value = node.output
        if graph.is_output(value) and value.name not in made:
            made[value.name] = Value(rest.unique_name(value.name), value.dtype, named_shape(value))
            rest.inputs.append(made[value.name])
    rest.outputs = [made[value.name] for value in graph.outputs if value.name not in known]
    return rest if rest.outputs and all(value.dtype is not None for value in rest.outputs) else None


def _is_planned(rest: Graph, context: PassContext) -> bool:
    """Whether all shapes follow from the sizes of the inputs, as far as sample sizes tell."""
    try:
        opened = infer(specialize_open(rest, Facts(), {}), context)
    except TreadleError:
        return False
    return first_region(opened).graph is opened
