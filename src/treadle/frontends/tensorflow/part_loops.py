"""Loops over lists that are tensors in the loop, so that the native core runs them (see `list_parts`)."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from treadle import dtypes
from treadle.dtypes import string
from treadle.frontends.tensorflow.body import Body
from treadle.frontends.tensorflow.body_steps import BodyPart
from treadle.frontends.tensorflow.core_lists import Items, ListItems
from treadle.frontends.tensorflow.emitter import Emitter, info_of
from treadle.frontends.tensorflow.list_parts import ListForm, ListParts, filled_up, of_rows, of_unwritten
from treadle.frontends.tensorflow.made_bodies import MadeBodies
from treadle.frontends.tensorflow.node import Node, Ref
from treadle.frontends.tensorflow.unlisted import (
    SET,
    ListUse,
    NotTensorsError,
    counts_by_one,
    form_of_list,
    unlisted,
    uses_of,
)
from treadle.graph.dim import equals, is_expression
from treadle.graph.shape import elements
from treadle.graph.value import Value
from treadle.ops.op import Info
from treadle.ops.sizes import known_sizes

MOST_COPIED = 1 << 16
"""How many bytes a tensor has at most of which each iteration makes a copy to write one item of a list: less work than
a step of Python."""


class HasLibrary(Protocol):
    """The functions of a graph, and what was made of bodies."""

    made: MadeBodies


class AddsLoops(Protocol):
    """Translates bodies, and adds loops without lists, as `control_nodes.ControlNodes` does."""

    emitter: Emitter
    lists: ListItems

    @property
    def library(self) -> HasLibrary:
        """The functions of the graph."""
        ...

    def native_loop(
        self, node: Node, values: list[Value], test: BodyPart, step: BodyPart, grown: Collection[Ref] = ()
    ) -> Sequence[Value] | None:
        """Add a loop that the native core runs, and return its results; None if that is not possible."""
        ...

    def rank_of(self, body: Body, given: Mapping[Ref, Info], ref: Ref) -> int | None:
        """Return the rank of a tensor of `body`, where `given` ones have these shapes; None if it is not certain."""
        ...


@dataclass(frozen=True, slots=True)
class _PartLoop:
    """A loop without lists, which stands for `node`."""

    node: Node
    test: BodyPart
    step: BodyPart
    grown: frozenset[Ref]


def loop_of_parts(
    translation: AddsLoops, node: Node, values: list[Value], test: BodyPart, step: BodyPart
) -> Sequence[Value] | None:
    """Add a loop over lists as one over the tensors that these are, and return its results.

    None if a list has to stay one, or the native core cannot run the loop. Raises NeedsShapeError while shapes are not
    known.
    """
    lists = {number: _held(translation.lists, value) for number, value in enumerate(values) if value.dtype is string}
    known = {number: held for number, held in lists.items() if held is not None}
    if len(known) < len(lists):
        return None
    try:
        uses = uses_of(step.body, step.given, known, step.wanted)
        tested = uses_of(test.body, test.given, known, ())
    except NotTensorsError:
        return None
    appended = frozenset(number for number, use in uses.items() if _appends(use, known[number], values, step))
    forms: dict[int, ListForm] = {}
    for number, use in uses.items():
        whole = replace(use, ops=use.ops | tested[number].ops)
        form = _form(translation, known[number], whole, values, step)
        if form is None or (number not in appended and not _may_set(use, form, known[number], values, step)):
            return None
        forms[number] = form

    def make() -> _PartLoop:
        tests = unlisted(test.body, test.given, test.wanted, forms, read=forms)
        read = [number for number, use in tested.items() if use.ops]
        steps = unlisted(step.body, step.given, step.wanted, forms, appended, read)
        return _PartLoop(
            replace(node),
            BodyPart(test.title, tests.body, tests.given, tests.wanted),
            BodyPart(step.title, steps.body, steps.given, steps.wanted),
            steps.grown,
        )

    made = translation.library.made
    key: Hashable = (made.number(node), "parts", tuple(forms.items()), appended)
    loop = made.later(key, make)
    e = translation.emitter
    parts = {
        number: _appended_to(e, form, known[number]) if number in appended else _parts(e, form, known[number])
        for number, form in forms.items()
    }
    operands = [each for number, value in enumerate(values) for each in _values(parts, number, value)]
    found = translation.native_loop(loop.node, operands, loop.test, loop.step, loop.grown)
    if found is None:
        return None
    rest = iter(found)
    results: list[Value] = []
    for number in range(len(step.wanted)):
        form = forms.get(number)
        if form is None:
            results.append(next(rest))
            continue
        made_parts = ListParts(form, tuple(next(rest) for _ in form.dtypes))
        count = parts[number].unwritten
        if count is not None:
            before = e.numbers(count)[0] + e.shape(parts[number].values[-1])[0]
            made_parts = filled_up(e, made_parts, e.sizes(before, dtypes.i64))
        results.append(translation.lists.add_parts(e, node, made_parts))
    return results


def _held(lists: ListItems, value: Value) -> Items | ListParts | None:
    """Return the items of a list of TensorFlow 2, or the tensors that it is."""
    items = lists.of(value)
    return lists.parts_of(value) if items is None or items.once else items


def _appends(use: ListUse, held: Items | ListParts, values: Sequence[Value], step: BodyPart) -> bool:
    """Return whether each iteration writes the item behind the last one, or behind the last one that was written."""
    number = None if use.index is None else counts_by_one(step.body, step.given, step.wanted, values, use.index)
    first = None if number is None else known_sizes(values[number])
    if number is None or first is None or len(first) != 1:
        return False
    if isinstance(held, ListParts):
        return held.next_is(values[number], grows=use.grows)
    return equals(held.count, first[0]) or (held.tensor is None and equals(first[0], 0) and not use.grows)


def _may_set(use: ListUse, form: ListForm, held: Items | ListParts, values: Sequence[Value], step: BodyPart) -> bool:
    """Return whether the writes at indices can be those of tensors, which are copied: these are small and do not grow,
    and no item is written twice whose elements would stay behind."""
    if SET not in use.ops:
        return True
    if use.grows or isinstance(held, ListParts) or is_expression(held.count):
        return False
    counted = use.index is not None and counts_by_one(step.body, step.given, step.wanted, values, use.index) is not None
    row = elements(form.item) * form.dtype.size if form.stacked else (1 + form.rank) * dtypes.i64.size
    return (form.stacked or counted) and held.count * row <= MOST_COPIED


def _form(
    translation: AddsLoops, held: Items | ListParts, use: ListUse, values: Sequence[Value], step: BodyPart
) -> ListForm | None:
    """Return what tensors a list is in the loop; None if that is not known."""
    if isinstance(held, ListParts):
        form = replace(held.form, counted=False)
        made = form_of_list(form.dtype, form.dims, None, form.rank, use)
        return made if made is not None and made.stacked == form.stacked else None
    shape = None if held.tensor is None else held.tensor.static_shape[1:]
    rank = None
    if held.dims is None and shape is None and use.written:
        known = [Info(value.known_dtype, info_of(value).shape) for value in values]
        rank = translation.rank_of(step.body, dict(zip(step.given, known, strict=True)), use.written[0])
    return form_of_list(held.dtype, held.dims, shape, rank, use)


def _parts(e: Emitter, form: ListForm, held: Items | ListParts) -> ListParts:
    """Return the list in front of the loop as tensors."""
    if isinstance(held, ListParts):
        plain = held.whole(e)
        if not form.counted:
            return ListParts(form, plain.values)
        return ListParts(form, (*plain.values, e.sizes(e.shape(plain.values[-1])[0], dtypes.i64)))
    if held.tensor is None:
        return of_unwritten(e, form, held.count)
    return of_rows(e, form, held.tensor)


def _appended_to(e: Emitter, form: ListForm, held: Items | ListParts) -> ListParts:
    """Return the list in front of a loop that writes behind the last of its items that is there."""
    if isinstance(held, ListParts):
        return ListParts(form, held.values, held.unwritten)
    return held.parts(e, form)


def _values(parts: Mapping[int, ListParts], number: int, value: Value) -> Sequence[Value]:
    return parts[number].values if number in parts else [value]
