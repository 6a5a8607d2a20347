"""Builds the program template of a plan with open sizes: compiles kernels, and encodes every size as a slot."""

from __future__ import annotations

from collections.abc import Callable

from treadle.codegen.artifact import Resources
from treadle.codegen.assemble import buffers_of, python_call, sizes_of, successors_of
from treadle.codegen.build import build_kernels
from treadle.graph.facts import MOST_ELEMENTS, Facts
from treadle.plan.binder import Encoder, Slot
from treadle.plan.plan import Home, Plan
from treadle.plan.status import FAILURES
from treadle.runtime.program_template import OutputTemplate, ProgramTemplate, StepTemplate, TemplateLayout
from treadle.tracing.registry import StepLabel


def assemble_open(plan: Plan, facts: Facts, progress: Callable[[int, int], None] | None = None) -> ProgramTemplate:
    """Compiles the kernels of `plan`, or loads them from the cache, and returns the plan as a template.

    Args:
        plan: A plan whose sizes are expressions of `facts`.
        facts: The symbols, and the guards under which the plan is valid.
        progress: Called with (done, total) while kernels are compiled.
    """
    library = build_kernels([call.spec for call in plan.calls if call.spec is not None], plan.target, progress)
    encoder = Encoder(list(facts.symbols.values()))
    slots = _Slots(encoder, plan, facts)
    operations = encoder.finish()
    number = encoder.number_of
    located, constants = buffers_of(plan)
    buffers = [
        (kind, number(slots.sizes[at]) if plan.buffers[at].home is Home.ARENA else value)
        for at, (kind, value) in enumerate(located)
    ]
    steps = [
        StepTemplate(
            body=python_call(call) if call.spec is None else library.addresses[call.spec],
            pointers=[(buffer, number(slot)) for buffer, slot in slots.pointers[at]],
            args=[number(slot) for slot in slots.args[at]],
            chunks=number(slots.chunks[at]),
            cost=number(slots.costs[at]),
            caps=call.caps,
        )
        for at, call in enumerate(plan.calls)
    ]
    return ProgramTemplate(
        TemplateLayout(
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
                OutputTemplate(tuple(map(number, shape)), port.dtype.numpy)
                for shape, port in zip(slots.outputs, plan.outputs, strict=True)
            ],
            failures=FAILURES,
            isa=plan.target.isa,
            kept=Resources(library, constants),
        )
    )


class _Slots:
    """The slots of everything in a plan that may depend on sizes."""

    def __init__(self, encoder: Encoder, plan: Plan, facts: Facts) -> None:
        symbols = facts.symbols.values()
        self.guards = [encoder.at_least(symbol, int(symbol.least)) for symbol in symbols if symbol.least > 0]
        self.guards += [
            encoder.at_least(-symbol, -int(symbol.most)) for symbol in symbols if symbol.most < MOST_ELEMENTS
        ]
        self.guards += [encoder.guard(guard) for guard in facts.guards]
        self.pointers: list[list[tuple[int, Slot]]] = []
        self.args: list[list[Slot]] = []
        for call in plan.calls:
            places = [plan.places[value] for value in (*call.writes, *call.reads)]
            offsets = [place.offset + call.offsets.get(at, 0) for at, place in enumerate(places)]
            self.pointers.append(
                [(place.buffer, encoder.integer(offset)) for place, offset in zip(places, offsets, strict=True)]
            )
            args = sizes_of(call) if call.spec is None else call.packed_args
            self.args.append([encoder.integer(arg) for arg in args])
        self.chunks = [encoder.integer(call.chunks) for call in plan.calls]
        self.costs = [encoder.real(call.cost) for call in plan.calls]
        self.sizes = [encoder.integer(buffer.size) for buffer in plan.buffers]
        self.scratch = encoder.integer(plan.scratch_bytes)
        self.outputs = [[encoder.integer(dim) for dim in port.shape] for port in plan.outputs]
