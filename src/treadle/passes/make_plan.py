"""Graph to Plan: kernels, tasks and memory of a specialised, optimised graph."""

from __future__ import annotations

from treadle.graph.dim import maximum
from treadle.graph.graph import Graph
from treadle.passes.build_tasks import build_tasks, dependencies
from treadle.passes.choose_kernels import choose_kernels
from treadle.passes.insert_prefetches import insert_prefetches
from treadle.passes.plan_memory import plan_memory
from treadle.plan.plan import Plan, Port
from treadle.plan.target import Target
from treadle.provider import Provider


def make_plan(
    graph: Graph, target: Target, math: str, provider: Provider | None = None, *, streamed_weights: bool | None = None
) -> Plan:
    """The plan of `graph`, whose shapes and dtypes are all known: numbers or expressions. Consumes the graph.

    `provider` multiplies matrices where it can; None leaves them all to generated kernels. `streamed_weights`: whether
    no cache holds the model's weights come from memory in every run; None: as those of `graph` would.

    Raises LimitError if it needs too much memory.
    """
    inputs = tuple(Port(value.name, value.known_dtype, value.static_shape) for value in graph.inputs)
    outputs = tuple(Port(value.name, value.known_dtype, value.static_shape) for value in graph.outputs)
    lowered = choose_kernels(graph, target, math, provider, streamed_weights=streamed_weights)
    insert_prefetches(lowered.calls, target)
    after = dependencies(lowered)
    memory = plan_memory(graph, lowered, after)
    calls, tasks = build_tasks(lowered.calls, after)
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
