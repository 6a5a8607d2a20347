"""Lowering of loops: one call that runs the plan of the body for every iteration."""

from __future__ import annotations

from treadle.graph.node import Node
from treadle.graph.shape import elements
from treadle.graph.value import Value
from treadle.ops.loop import form_of, most_iterations
from treadle.ops.sizes import known_value
from treadle.passes.infer_shapes import info_of
from treadle.passes.lower.base import LowerContext, nbytes
from treadle.plan.call import Call
from treadle.plan.control_flow import Loop

UNKNOWN_ITERATIONS = 16
"""The number of iterations that estimates assume where nothing bounds it."""


def lower_loop(node: Node, ctx: LowerContext) -> list[Call] | None:
    """One call, which costs as much as all iterations; None if the body has no plan."""
    plans = ctx.plans_of_bodies(node)
    if not plans:
        return None
    (body,) = plans
    form = form_of(node.attrs)
    most = most_iterations(node.attrs, [None if value is None else info_of(value) for value in node.inputs])
    limit, condition = (_read(value) for value in node.inputs[:2])
    if condition is None and not _begins(node.inputs[1]):
        most = 0
    values = [value for value in node.inputs[2:] if value is not None]
    initial, sliced = values[: form.carried], values[form.carried : form.carried + form.sliced]
    captured = values[form.carried + form.sliced :]
    if most is None and sliced:
        most = sliced[0].static_shape[0]  # the step compares it with the limit
    results, stacked = node.outputs[: form.carried], node.outputs[form.carried : -1]
    spare = [ctx.temporary(f"{value.name}.spare", value.known_dtype, value.static_shape) for value in results]
    # The body holds what is known of captured values and does not read them, so that any address will do.
    captured = [value if known_value(value) is None else node.outputs[-1] for value in captured]
    times = UNKNOWN_ITERATIONS if most is None else most
    return [
        Call(
            node=node.name,
            op=node.op,
            writes=(*node.outputs, *spare),
            reads=(*(value for value in (limit, condition) if value is not None), *initial, *sliced, *captured),
            control=Loop(
                body,
                form.carried,
                form.stacked,
                limit is not None,
                condition is not None,
                node.attrs["decides"],
                form.sliced,
            ),
            sizes=(-1 if most is None else most, *map(nbytes, results), *map(_item_bytes, (*stacked, *sliced))),
            cost=ctx.machine.call_ns + times * sum(call.cost for call in body.calls),
            flops=times * sum(call.flops for call in body.calls),
            traffic=times * sum(call.traffic for call in body.calls),
        )
    ]


def _read(value: Value | None) -> Value | None:
    """`value` if the step has to read it: it is there, and its elements are not known."""
    return None if value is None or known_value(value) is not None else value


def _begins(condition: Value | None) -> bool:
    """Whether a loop makes a first iteration: `condition` is absent, or known."""
    known = None if condition is None else known_value(condition)
    return known is None or bool(known.reshape(-1)[0])


def _item_bytes(value: Value) -> int:
    return elements(value.static_shape[1:]) * value.known_dtype.size
