"""The record of an artifact: everything of a compiled model but machine code and constants, as JSON.

A step that runs bodies has their plans in its own entry, at any depth. Kernels and constants are numbered for the whole
model: plan and bodies share them.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from treadle import dtypes
from treadle.codegen.build import KernelSet
from treadle.graph.object_result import ObjectResult
from treadle.graph.open_dims import NOTHING, Bounds, OpenDims
from treadle.immutable import immutable
from treadle.plan.status import FAILURES
from treadle.plan.target import Target
from treadle.records import dataclass
from treadle.runtime.control_form import FORMS
from treadle.runtime.data_stage import AHEAD, Ahead, DataStage, StageForm
from treadle.runtime.executable import ControlLayout, Executable, HandOver, Layout, StageLayout, Step
from treadle.runtime.outputs import ArraySpec, SizedSpec
from treadle.runtime.program_template import (
    ControlTemplate,
    OutputTemplate,
    ProgramTemplate,
    StageTemplate,
    StepTemplate,
    TemplateLayout,
)
from treadle.runtime.signature import Interface, Tensor
from treadle.runtime.stored_step import StoredStep, pickled_text
from treadle.tracing.registry import StepLabel

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Resources:
    """What an executable owns: its kernels, and the constants of its plan and of the bodies in it."""

    kernels: KernelSet
    arrays: list[Array]

    @property
    def bytes(self) -> tuple[int, int]:
        """The bytes of the constants and of the machine code."""
        return sum(array.nbytes for array in self.arrays), sum(len(one.content) for one in self.kernels.objects)


NO_NOTES: Mapping[str, Any] = MappingProxyType({})


class Artifact(NamedTuple):
    """A compiled model.

    Attributes:
        interface: Its inputs and outputs.
        program: Its executable; for a model with open dimensions the template of one; None if it cannot be compiled
            before its sizes are known.
        nodes: The names of its nodes; None if they are not known before its sizes are.
        symbols: The names of its open dimensions, in the order in which the template takes their sizes.
        appended: Those of which a plan for sizes of 0 serves all sizes.
        hints: The sizes that it was compiled for, by name; None: sample sizes.
        is_template: Whether the model's graph is made for the dtypes and shapes of its inputs.
        notes: What else is known of it, as JSON has it.
    """

    interface: Interface
    program: Executable | ProgramTemplate | None
    nodes: tuple[str, ...] | None
    symbols: tuple[str, ...] = ()
    appended: frozenset[str] = frozenset()
    hints: Mapping[str, int] | None = None
    is_template: bool = False
    notes: Mapping[str, Any] = NO_NOTES


class NoForm(Exception):  # noqa: N818 - never leaves this module
    """A part of a plan has no form on disk."""


def record_of(artifact: Artifact, resources: Resources) -> dict[str, Any] | None:
    """Returns the record, in which constants are numbered as in `resources`.

    None if a step is neither one of the kernels nor a Python function that has a form on disk, or if a dimension is
    computed from others.
    """
    interface, kernels = artifact.interface, resources.kernels
    smallest_first = sorted(enumerate(resources.arrays), key=lambda one: one[1].nbytes)
    numbers = _Numbers(
        kernels={address: number for number, address in enumerate(kernels.addresses.values())},
        constants={address_of(array): number for number, array in smallest_first},
    )
    if interface.dims.derived:
        return None
    try:
        plan = None if artifact.program is None else _plan_record(artifact.program.layout, numbers)
    except NoForm:
        return None
    return {
        "inputs": [(one.name, _name(one.dtype), one.shape) for one in interface.inputs],
        "outputs": [(one.name, _name(one.dtype), one.shape) for one in interface.outputs],
        "made": [
            each if isinstance(each, str) else (each.name, each.type, each.reads, pickled_text(each.make))
            for each in interface.results
        ],
        "bounds": [
            (name, least, None if math.isinf(most) else most) for name, (least, most) in interface.dims.bounds.items()
        ],
        "nodes": artifact.nodes,
        "template": artifact.is_template,
        "notes": dict(artifact.notes),
        "symbols": artifact.symbols,
        "appended": sorted(artifact.appended),
        "hints": None if artifact.hints is None else dict(artifact.hints),
        "kernels": [(one.spec, one.symbol, len(one.content)) for one in kernels.objects],
        "plan": plan,
    }


def artifact_of(record: Mapping[str, Any], addresses: Sequence[int], resources: Resources, target: Target) -> Artifact:
    """Returns the artifact of a record.

    Args:
        record: What `record_of` has returned.
        addresses: Of the kernels, in their order.
        resources: The kernels and constants.
        target: The CPU that the kernels are for.
    """
    inputs, outputs = (
        tuple(
            Tensor(name, None if dtype is None else _dtype(dtype), None if shape is None else tuple(shape))
            for name, dtype, shape in record[side]
        )
        for side in ("inputs", "outputs")
    )
    bounds = {name: Bounds(least, math.inf if most is None else most) for name, least, most in record["bounds"]}
    made = _Restored(addresses, [address_of(array) for array in resources.arrays], resources, target)
    return Artifact(
        Interface(
            inputs, outputs, dims=OpenDims(bounds) if bounds else NOTHING, results=tuple(map(_made, record["made"]))
        ),
        None if record["plan"] is None else made.program(record["plan"]),
        None if record["nodes"] is None else tuple(record["nodes"]),
        tuple(record["symbols"]),
        frozenset(record["appended"]),
        record["hints"],
        record["template"],
        record["notes"],
    )


class _Numbers(NamedTuple):
    """The numbers of kernels and constants by their addresses."""

    kernels: Mapping[int, int]
    constants: Mapping[int, int]


def _plan_record(layout: Layout | TemplateLayout, numbers: _Numbers) -> dict[str, Any]:
    """Returns the record of a plan, those of its bodies included. Raises NoForm if a part has no form on disk."""
    own: dict[str, Any]
    if isinstance(layout, TemplateLayout):
        own = {
            "symbols": layout.symbols,
            "values": _packed(layout.constants, np.int64),
            "operations": _packed(layout.operations, np.int32),
            "operands": _packed(layout.operands, np.int32),
            "guards": list(layout.guards),
            "rivals": _packed(layout.rivals, np.int32),
        }
    else:
        own = {"arena": layout.arena_bytes}
    steps: Sequence[Step | StepTemplate] = layout.steps
    return {
        "results": [_result_record(form) for form in layout.outputs],
        "steps": [
            (_body_record(step.body, numbers), step.pointers, step.args, step.chunks, step.cost, dict(step.caps))
            for step in steps
        ],
        "labels": [(label.node, label.op) for label in layout.labels],
        "tasks": list(layout.tasks),
        "successors": list(layout.successors),
        "buffers": [(kind, numbers.constants[at] if kind == "constant" else at) for kind, at in layout.buffers],
        "scratch": layout.scratch_bytes,
        "hand_over": list(layout.hand_over),
        **own,
    }


def _result_record(form: ArraySpec | SizedSpec | OutputTemplate) -> tuple[str | None, tuple[int, ...] | None, bool]:
    """Returns dtype and shape of an output (None: a run finds it), and whether the caller gives its memory."""
    if isinstance(form, SizedSpec):
        return _name(form.dtype), None, False
    return _name(form.dtype), form.shape, form.is_given


def _body_record(body: object, numbers: _Numbers) -> int | str | dict[str, Any]:
    """Returns the number of a kernel, the text of a Python function, or the record of a branch, loop or stage.

    Raises NoForm for other bodies.
    """
    if isinstance(body, StageLayout | StageTemplate):
        own: dict[str, Any] = {"args": list(body.args)} if isinstance(body, StageLayout) else {}
        ahead = body.stage.ahead
        if ahead is not None:
            bodies = [_stage_record(stage.form) for stage in ahead.bodies]
            own["ahead"] = {**_form_record(ahead.form, AHEAD), "bodies": bodies}
        return {"stage": _stage_record(body.stage.form), "counts": list(body.counts), **own}
    if isinstance(body, ControlLayout | ControlTemplate):
        layouts = [one.layout if isinstance(one, ProgramTemplate) else one for one in body.bodies]
        return {**_form_record(body.form, FORMS), "bodies": [_plan_record(layout, numbers) for layout in layouts]}
    from treadle.runtime.python_step import text_of

    found = numbers.kernels.get(body) if isinstance(body, int) else text_of(body)
    if found is None:
        raise NoForm
    return found


def _form_record(form: tuple[Any, ...], kinds: Mapping[str, type]) -> dict[str, Any]:
    """Returns the record of a form of one of these kinds, of which `_form` makes it again."""
    return {"form": next(name for name, kind in kinds.items() if isinstance(form, kind)), "fields": list(form)}


def _stage_record(form: StageForm) -> list[Any]:
    dtypes_of_outputs, *names = form
    return [[*map(_name, dtypes_of_outputs)], *names]


@immutable
class _Restored:
    """Makes layouts of records, for one model."""

    kernels: Sequence[int]
    constants: Sequence[int]
    resources: Resources
    target: Target

    def program(self, record: Mapping[str, Any]) -> Executable | ProgramTemplate:
        layout = self.layout(record)
        return ProgramTemplate(layout) if isinstance(layout, TemplateLayout) else Executable.of(layout)

    def layout(self, record: Mapping[str, Any]) -> Layout | TemplateLayout:
        buffers = [(kind, self.constants[at] if kind == "constant" else at) for kind, at in record["buffers"]]
        labels = [StepLabel(node, op) for node, op in record["labels"]]
        if "symbols" in record:
            return TemplateLayout(
                symbols=record["symbols"],
                constants=_unpacked(record["values"], np.int64),
                operations=_unpacked(record["operations"], np.int32).reshape(-1, 2),
                operands=_unpacked(record["operands"], np.int32),
                guards=record["guards"],
                steps=[
                    StepTemplate(self._open_body(body), [(buffer, at) for buffer, at in pointers], *rest)
                    for body, pointers, *rest in record["steps"]
                ],
                labels=labels,
                tasks=[(first, count, blocking) for first, count, blocking in record["tasks"]],
                successors=record["successors"],
                buffers=buffers,
                rivals=[(one, other) for one, other in _unpacked(record["rivals"], np.int32).reshape(-1, 2).tolist()],
                scratch_bytes=record["scratch"],
                outputs=[
                    SizedSpec(_dtype(name)) if shape is None else OutputTemplate(tuple(shape), _dtype(name), given)
                    for name, shape, given in record["results"]
                ],
                failures=FAILURES,
                isa=self.target.isa,
                kept=self.resources,
                hand_over=HandOver(*record["hand_over"]),
            )
        return Layout(
            steps=[
                Step(self._body(body), [(buffer, offset) for buffer, offset in pointers], *rest)
                for body, pointers, *rest in record["steps"]
            ],
            labels=labels,
            tasks=[(first, count, priority, blocking) for first, count, priority, blocking in record["tasks"]],
            successors=record["successors"],
            buffers=buffers,
            arena_bytes=record["arena"],
            scratch_bytes=record["scratch"],
            outputs=[
                SizedSpec(_dtype(name)) if shape is None else ArraySpec(tuple(shape), _dtype(name), given)
                for name, shape, given in record["results"]
            ],
            failures=FAILURES,
            isa=self.target.isa,
            kept=self.resources,
            hand_over=HandOver(*record["hand_over"]),
        )

    def _body(self, body: int | str | Mapping[str, Any]) -> int | StoredStep | ControlLayout | StageLayout:
        if isinstance(body, Mapping) and "stage" in body:
            return StageLayout(_stage(body), body["args"], body["counts"])
        if isinstance(body, Mapping):
            bodies = [self.layout(one) for one in body["bodies"]]
            return ControlLayout([one for one in bodies if isinstance(one, Layout)], _form(body, FORMS))
        return self.kernels[body] if isinstance(body, int) else StoredStep(body)

    def _open_body(self, body: int | str | Mapping[str, Any]) -> int | StoredStep | ControlTemplate | StageTemplate:
        if isinstance(body, Mapping) and "stage" in body:
            return StageTemplate(_stage(body), body["counts"])
        if isinstance(body, Mapping):
            bodies = [self.layout(one) for one in body["bodies"]]
            templates = [ProgramTemplate(one) for one in bodies if isinstance(one, TemplateLayout)]
            return ControlTemplate(templates, _form(body, FORMS))
        return self.kernels[body] if isinstance(body, int) else StoredStep(body)


def _stage(record: Mapping[str, Any]) -> DataStage:
    ahead = None
    if "ahead" in record:
        kept = record["ahead"]
        bodies = tuple(DataStage(_stage_form(body)) for body in kept["bodies"])
        ahead = Ahead(bodies, _form(kept, AHEAD))
    return DataStage(_stage_form(record["stage"]), ahead=ahead)


def _stage_form(record: Sequence[Any]) -> StageForm:
    names_of_dtypes, *names = record
    return StageForm(tuple(map(_dtype, names_of_dtypes)), *map(tuple, names))


def _made(record: str | tuple[str, str, Sequence[str], str]) -> str | ObjectResult:
    if isinstance(record, str):
        return record
    name, kind, reads, text = record
    return ObjectResult(name, kind, tuple(reads), StoredStep(text))


def _form(record: Mapping[str, Any], kinds: Mapping[str, Callable[..., Any]]) -> Any:
    return kinds[record["form"]](*record["fields"])


def _packed(numbers: Array | Sequence[tuple[int, int]], dtype: type[np.integer[Any]]) -> str:
    """Returns the text of `numbers`: shorter than JSON's, and read faster."""
    return base64.b64encode(np.asarray(numbers, dtype).tobytes()).decode()


def _unpacked(text: str, dtype: type[np.integer[Any]]) -> Array:
    return np.frombuffer(bytearray(base64.b64decode(text)), dtype)


def address_of(array: Array) -> int:
    """Returns the address of the first element."""
    return int(array.__array_interface__["data"][0])


def _name(dtype: np.dtype[Any] | None) -> str | None:
    return None if dtype is None else dtypes.from_numpy(dtype).name


def _dtype(name: str) -> np.dtype[Any]:
    return dtypes.BY_NAME[name].numpy
