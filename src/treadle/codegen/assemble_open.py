"""Builds the program template of a plan with open sizes: compiles kernels, and encodes every size as a slot."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from treadle.codegen.artifact_record import Resources
from treadle.codegen.assemble import (
    buffers_of,
    control_form,
    hand_over_of,
    python_call,
    sizes_of,
    specs_of,
    successors_of,
)
from treadle.codegen.build import build_kernels
from treadle.graph.facts import MOST_ELEMENTS, Facts
from treadle.graph.shape import is_open
from treadle.plan.binder import Encoder, Slot
from treadle.plan.call import Call
from treadle.plan.control_flow import Rest
from treadle.plan.plan import Home, Plan
from treadle.plan.status import FAILURES
from treadle.runtime.outputs import SizedSpec
from treadle.runtime.program_template import (
    ControlTemplate,
    OutputTemplate,
    ProgramTemplate,
    StageTemplate,
    StepTemplate,
    TemplateLayout,
)
from treadle.runtime.python_step import PythonCall
from treadle.tracing.registry import StepLabel


def assemble_open(plan: Plan, facts: Facts, progress: Callable[[int, int], None] | None = None) -> ProgramTemplate:
    """Compiles the kernels of `plan`, or loads them from the cache, and returns the plan as a template.

    Args:
        plan: A plan whose sizes are expressions of `facts`.
        facts: The symbols, and the guards under which the plan is valid.
        progress: Called with (done, total) while kernels are compiled.
    """
    kernels = build_kernels(specs_of(plan), plan.target, progress)
    return ProgramTemplate(_layout(plan, facts, Resources(kernels, [])))


def _layout(plan: Plan, facts: Facts, resources: Resources) -> TemplateLayout:
    """Returns the layout of `plan`, whose constants are added to `resources`."""
    encoder = Encoder(list(facts.symbols.values()))
    slots = _Slots(encoder, plan, facts)
    operations = encoder.finish()
    number = encoder.number_of
    buffers = [
        (kind, number(slots.sizes[at]) if plan.buffers[at].home is Home.ARENA else value)
        for at, (kind, value) in enumerate(buffers_of(plan, resources))
    ]
    steps = [
        StepTemplate(
            body=_body(call, facts, resources),
            pointers=[(buffer, number(slot)) for buffer, slot in slots.pointers[at]],
            args=[number(slot) for slot in slots.args[at]],
            chunks=number(slots.chunks[at]),
            cost=number(slots.costs[at]),
            caps=call.caps,
        )
        for at, call in enumerate(plan.calls)
    ]
    return TemplateLayout(
        symbols=operations.symbols,
        constants=operations.constants,
        operations=operations.operations,
        operands=operations.operands,
        guards=[number(slot) for slot in slots.guards],
        steps=steps,
        labels=[StepLabel(call.node, call.op) for call in plan.calls],
        tasks=[(task.first, task.count, task.blocking) for task in plan.tasks],
        successors=successors_of(plan),
        buffers=buffers,
        rivals=[(one, other) for one, others in plan.rivals.items() for other in others if one < other],
        scratch_bytes=number(slots.scratch),
        outputs=[
            SizedSpec(port.dtype.numpy)
            if port.sized_in_run
            else OutputTemplate(tuple(map(number, shape)), port.dtype.numpy, port.is_given)
            for shape, port in zip(slots.outputs, plan.outputs, strict=True)
        ],
        failures=FAILURES,
        isa=plan.target.isa,
        kept=resources,
        hand_over=hand_over_of(plan.target),
    )


def _body(call: Call, facts: Facts, resources: Resources) -> int | PythonCall | ControlTemplate | StageTemplate:
    if isinstance(call.control, Rest):
        return StageTemplate(call.control.stage, call.control.counts)
    if call.control is not None:
        bodies = [ProgramTemplate(_layout(plan, facts, resources)) for plan in call.plans]
        return ControlTemplate(bodies, control_form(call))
    return python_call(call) if call.spec is None else resources.kernels.addresses[call.spec]


class _Slots:
    """The slots of everything in a plan that may depend on sizes."""

    def __init__(self, encoder: Encoder, plan: Plan, facts: Facts) -> None:
        symbols = facts.symbols.values()
        bounded = (symbol for symbol in symbols if symbol.least not in (0, -math.inf))
        self.guards = [encoder.at_least(symbol, int(symbol.least)) for symbol in bounded]
        self.guards += [
            encoder.at_least(-symbol, -int(symbol.most)) for symbol in symbols if symbol.most < MOST_ELEMENTS
        ]
        self.guards += [encoder.guard(guard) for guard in facts.guards]
        self.guards += [
            encoder.elements_at_most(port.shape, MOST_ELEMENTS)
            for port in plan.outputs
            if not port.sized_in_run and is_open(port.shape)
        ]
        self.pointers: list[list[tuple[int, Slot]]] = []
        self.args: list[list[Slot]] = []
        for call in plan.calls:
            places = [plan.places[value] for value in (*call.writes, *call.reads)]
            offsets = [place.offset + call.offsets.get(at, 0) for at, place in enumerate(places)]
            self.pointers.append(
                [(place.buffer, encoder.integer(offset)) for place, offset in zip(places, offsets, strict=True)]
            )
            if isinstance(call.control, Rest):
                args: Iterable[int] = call.sizes
            elif call.control is not None:
                args = (*symbols, *call.sizes)
            else:
                args = sizes_of(call) if call.spec is None else call.packed_args
            self.args.append([encoder.integer(arg) for arg in args])
        self.chunks = [encoder.integer(call.chunks) for call in plan.calls]
        self.costs = [encoder.real(call.cost) for call in plan.calls]
        self.sizes = [encoder.integer(buffer.size) for buffer in plan.buffers]
        self.scratch = encoder.integer(plan.scratch_bytes)
        self.outputs = [[encoder.integer(dim) for dim in port.shape] for port in plan.outputs]
