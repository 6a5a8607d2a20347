"""Plans with numbers in place of expressions: what a bound program executes, for people and tests to read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from treadle.graph.dim import DimExpr, RealExpr
from treadle.graph.guard import Functions, evaluate
from treadle.plan.call import Call
from treadle.plan.first_fit import first_fit
from treadle.plan.plan import Place, Plan


def bound(plan: Plan, sizes: Mapping[str, int], functions: Functions) -> Plan:
    """Returns `plan` for numbers in place of its symbols.

    Args:
        plan: A plan whose sizes are expressions.
        sizes: The sizes of its symbols, by name.
        functions: The functions that expressions call, by name.
    """

    number = _numbers_at(sizes, functions)
    buffers = [replace(buffer, size=number(buffer.size)) for buffer in plan.buffers]
    arena = plan.arena_bytes
    if plan.rivals:
        largest_first = sorted(plan.rivals, key=lambda index: (-buffers[index].size, index))
        offsets, arena = first_fit(((index, buffers[index].size) for index in largest_first), plan.rivals.__getitem__)
        for index, offset in offsets.items():
            buffers[index].position = offset
    return replace(
        plan,
        inputs=tuple(replace(port, shape=number(port.shape)) for port in plan.inputs),
        outputs=tuple(replace(port, shape=number(port.shape)) for port in plan.outputs),
        calls=[bound_call(call, sizes, functions) for call in plan.calls],
        buffers=buffers,
        places={value: Place(place.buffer, number(place.offset)) for value, place in plan.places.items()},
        arena_bytes=arena,
        scratch_bytes=number(plan.scratch_bytes),
        rivals={},
    )


def bound_call(call: Call, sizes: Mapping[str, int], functions: Functions) -> Call:
    """Returns `call` for numbers in place of its symbols. The arguments are as in `bound`."""
    number = _numbers_at(sizes, functions)
    return replace(
        call,
        sizes=number(call.sizes),
        args=number(call.args),
        chunks=number(call.chunks),
        cost=number(call.cost),
        scratch=number(call.scratch),
        flops=number(call.flops),
        traffic=number(call.traffic),
        variant=number(call.variant),
        offsets={at: number(offset) for at, offset in call.offsets.items()},
    )


def _numbers_at(sizes: Mapping[str, int], functions: Functions) -> Callable[[Any], Any]:
    """Returns a function that evaluates the expressions in a size, a tuple or a record."""

    def number(size: Any) -> Any:
        if isinstance(size, DimExpr | RealExpr):
            return evaluate(size, sizes, functions)
        if isinstance(size, tuple):
            return tuple(map(number, size))
        if is_dataclass(size) and not isinstance(size, type):
            return replace(size, **{field.name: number(getattr(size, field.name)) for field in fields(size)})
        return size

    return number
