"""Graph to Plan: kernels, tasks and memory of a specialised, optimised graph."""

from __future__ import annotations

from treadle.graph.dim import maximum
from treadle.graph.graph import Graph
from treadle.graph.shape import is_open
from treadle.graph.value import Value
from treadle.passes.build_tasks import build_tasks, dependencies
from treadle.passes.choose_kernels import choose_kernels
from treadle.passes.insert_prefetches import insert_prefetches
from treadle.passes.lower.concat import is_appended
from treadle.passes.lower.scatter import is_written
from treadle.passes.plan_memory import plan_memory
from treadle.passes.write_over import write_over_operands
from treadle.plan.plan import Plan, Port
from treadle.plan.target import Target
from treadle.provider import Provider


def make_plan(
    graph: Graph,
    target: Target,
    math: str,
    provider: Provider | None = None,
    *,
    weight_bytes: int | None = None,
    open_sizes: bool = False,
    batch_invariant: bool = False,
) -> Plan:
    """The plan of `graph`, whose shapes and dtypes are all known: numbers or expressions. Consumes the graph.

    `provider` multiplies matrices where it can; None leaves them all to generated kernels. `weight_bytes`: those of the
    model's weights; None: those of the constants of `graph`. `open_sizes`: whether memory is planned at binding
    although no shape in `graph` is open: it is a body in a graph where some are, or only arguments of kernels depend on
    sizes. `batch_invariant` is as in PassContext.

    Raises LimitError if it needs too much memory.
    """
    inputs = tuple(Port(value.name, value.known_dtype, value.static_shape) for value in graph.inputs)
    outputs = tuple(_output(graph, value) for value in graph.outputs)
    open_sizes = open_sizes or any(is_open(value.static_shape) for node in graph.nodes for value in node.outputs)
    plans = {
        node: tuple(
            make_plan(
                body,
                target,
                math,
                provider,
                weight_bytes=weight_bytes,
                open_sizes=open_sizes,
                batch_invariant=batch_invariant,
            )
            for body in node.attrs["optimized"]
        )
        for node in graph.nodes
        if "optimized" in node.attrs
    }
    lowered = choose_kernels(
        graph,
        target,
        math,
        provider,
        weight_bytes=weight_bytes,
        plans=plans,
        batch_invariant=batch_invariant,
    )
    insert_prefetches(lowered.calls, target)
    write_over_operands(graph, lowered)
    after = dependencies(lowered)
    memory = plan_memory(graph, lowered, after, open_sizes=open_sizes)
    calls, tasks = build_tasks(lowered.calls, after, target.machine.wake_ns)
    graph.dissolve()
    return Plan(
        target=target,
        inputs=inputs,
        outputs=outputs,
        calls=calls,
        buffers=memory.buffers,
        places=memory.places,
        tasks=tasks,
        arena_bytes=memory.arena_bytes,
        scratch_bytes=maximum(0, *(call.scratch for call in calls)),
        rivals=memory.rivals,
    )


def _output(graph: Graph, value: Value) -> Port:
    node = value.producer
    if node is not None and node.op == "data_stage":
        return Port(value.name, node.attrs["dtypes"][node.outputs.index(value)], (), sized_in_run=True)
    is_given = is_appended(graph, value) or is_written(graph, value)
    return Port(value.name, value.known_dtype, value.static_shape, is_given=is_given)
