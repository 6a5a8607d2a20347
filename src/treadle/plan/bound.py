"""Plans with numbers in place of expressions: what a bound program executes, for people and tests to read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from treadle.graph.dim import DimExpr, RealExpr
from treadle.graph.guard import Functions, evaluate
from treadle.plan.plan import Buffer, Home, Place, Plan, Port

ALIGNMENT = 64
"""Buffers in the arena begin at multiples of this many bytes."""


def bound(plan: Plan, sizes: Mapping[str, int], functions: Functions) -> Plan:
    """Returns `plan` for numbers in place of its symbols.

    Args:
        plan: A plan whose sizes are expressions.
        sizes: The sizes of its symbols, by name.
        functions: The functions that expressions call, by name.
    """

    def number(size: Any) -> Any:
        if isinstance(size, DimExpr | RealExpr):
            return evaluate(size, sizes, functions)
        if isinstance(size, tuple):
            return tuple(map(number, size))
        if is_dataclass(size) and not isinstance(size, type):
            return replace(size, **{field.name: number(getattr(size, field.name)) for field in fields(size)})
        return size

    buffers = [replace(buffer, size=number(buffer.size)) for buffer in plan.buffers]
    arena = plan.arena_bytes
    if plan.rivals:
        arena = _place(buffers, plan.rivals)
    return replace(
        plan,
        inputs=tuple(Port(port.name, port.dtype, number(port.shape)) for port in plan.inputs),
        outputs=tuple(Port(port.name, port.dtype, number(port.shape)) for port in plan.outputs),
        calls=[
            replace(
                call,
                args=number(call.args),
                chunks=number(call.chunks),
                cost=number(call.cost),
                scratch=number(call.scratch),
                flops=number(call.flops),
                traffic=number(call.traffic),
                offsets={at: number(offset) for at, offset in call.offsets.items()},
            )
            for call in plan.calls
        ],
        buffers=buffers,
        places={value: Place(place.buffer, number(place.offset)) for value, place in plan.places.items()},
        arena_bytes=arena,
        scratch_bytes=number(plan.scratch_bytes),
        rivals={},
    )


def _place(buffers: list[Buffer], rivals: Mapping[int, tuple[int, ...]]) -> int:
    """Place the buffers of the arena, largest first, each at the lowest offset that no rival has; return its size."""
    ends: dict[int, tuple[int, int]] = {}
    for index in sorted(rivals, key=lambda index: (-buffers[index].size, index)):
        assert buffers[index].home is Home.ARENA
        size = -(-max(buffers[index].size, 1) // ALIGNMENT) * ALIGNMENT
        offset = 0
        for start, end in sorted(ends[other] for other in rivals[index] if other in ends):
            if offset + size <= start:
                break
            offset = max(offset, end)
        buffers[index].position = offset
        ends[index] = offset, offset + size
    return max((end for _, end in ends.values()), default=0)
