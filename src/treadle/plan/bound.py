"""Plans with numbers in place of expressions: what a bound program executes, for people and tests to read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from functools import partial
from typing import Any

from treadle.graph.dim import DimExpr, RealExpr
from treadle.graph.guard import Functions, Numbers
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
    numbers = Numbers(sizes, functions)
    number = partial(_with_numbers, numbers)
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
        calls=[_bound_call(call, numbers) for call in plan.calls],
        buffers=buffers,
        places={value: Place(place.buffer, number(place.offset)) for value, place in plan.places.items()},
        arena_bytes=arena,
        scratch_bytes=number(plan.scratch_bytes),
        rivals={},
    )


def bound_call(call: Call, sizes: Mapping[str, int], functions: Functions) -> Call:
    """Returns `call` for numbers in place of its symbols. The arguments are as in `bound`."""
    return _bound_call(call, Numbers(sizes, functions))


def _bound_call(call: Call, numbers: Numbers) -> Call:
    number = partial(_with_numbers, numbers)
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


def _with_numbers(numbers: Numbers, size: Any) -> Any:
    """Returns a size, a tuple or a record with numbers in place of expressions."""
    if isinstance(size, DimExpr | RealExpr):
        return numbers.of(size)
    if isinstance(size, tuple):
        return tuple(_with_numbers(numbers, each) for each in size)
    if is_dataclass(size) and not isinstance(size, type):
        return replace(
            size, **{field.name: _with_numbers(numbers, getattr(size, field.name)) for field in fields(size)}
        )
    return size
