"""Branches and loops of TensorFlow graphs: as core nodes with bodies where these can be, else as Python steps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Hashable, Mapping, Sequence
from functools import partial

from treadle.dtypes import DType, string
from treadle.errors import TreadleError
from treadle.frontends.core_bodies import is_known, needs_python, same_forms
from treadle.frontends.deferred_nodes import LaterLoop, NeedsShapeError, given, later_body
from treadle.frontends.faults import Fault, Faults, Unsupported
from treadle.frontends.tensorflow.body import Body, Library, expanded
from treadle.frontends.tensorflow.body_steps import BodyPart, split_body
from treadle.frontends.tensorflow.calls import add_call
from treadle.frontends.tensorflow.control import Branches, ListLoop, Loop
from treadle.frontends.tensorflow.core_control import decides, may_be_core
from treadle.frontends.tensorflow.core_lists import ListItems
from treadle.frontends.tensorflow.core_loops import CoreLoop
from treadle.frontends.tensorflow.declared import result_dtypes
from treadle.frontends.tensorflow.emitter import Emitter, info_of
from treadle.frontends.tensorflow.frames import frame_parts, resolve_frame_aliases, without_frames
from treadle.frontends.tensorflow.list_loops import SplitStep
from treadle.frontends.tensorflow.node import Node, Ref, tensor_name
from treadle.frontends.tensorflow.part_loops import loop_of_parts
from treadle.frontends.tensorflow.switches import branch_parts, without_switches
from treadle.frontends.tensorflow.tensor_arrays import arrays_as_lists
from treadle.frontends.tensorflow.unlisted import adds_one, first_count
from treadle.graph.graph import Graph
from treadle.graph.shape import StaticShape
from treadle.graph.template import Form as Given
from treadle.graph.template import Template
from treadle.graph.value import Value
from treadle.ops.deferred import DeferredNodes
from treadle.ops.op import Info

MOST_NESTED = 48
"""The deepest nesting of bodies that are translated in advance; of branches with constant predicates, the deepest."""
OPERAND_ERRORS = (TreadleError, ValueError, TypeError, LookupError, ArithmeticError, MemoryError)
"""What rules raise for operands and attributes that do not fit."""

Env = dict[Ref, Value]


class ControlNodes(ABC):
    """The part of a translation that translates nodes with bodies. `depth` is the number of bodies around them."""

    emitter: Emitter
    lists: ListItems

    def __init__(self, library: Library, depth: int) -> None:
        self.library = library
        self.depth = depth
        self._body = Body({})

    @abstractmethod
    def run(self, body: Body, env: Env, wanted: Sequence[Ref]) -> None:
        """Add the tensors that `wanted` depend on to `env`, which holds the given ones."""

    @abstractmethod
    def inner(self, faults: Faults, *, deeper: bool = False, graph: Graph | None = None) -> ControlNodes:
        """Return what translates into a `graph` of its own, or this one.

        That is a part of the same body or, `deeper`, a body inside it.
        """

    @abstractmethod
    def rank_of(self, body: Body, given: Mapping[Ref, Info], ref: Ref) -> int | None:
        """Return the rank of a tensor of `body`, where `given` ones have these shapes; None if it is not certain."""

    @abstractmethod
    def finish(self, values: Sequence[Value]) -> None:
        """Make `values` the outputs of the graph."""

    @abstractmethod
    def template(
        self,
        title: str,
        body: Body,
        given: Mapping[Ref, Value | None],
        wanted: Sequence[Ref],
        dtypes: Sequence[DType | None],
    ) -> Template:
        """Return the part of `body` from `given` to `wanted` as a template, with given constants compiled in."""

    def branch(self, node: Node, values: list[Value]) -> Sequence[Value]:
        """Return the results of an If of two functions.

        If its predicate is constant, one of them is translated in place.

        Raises Fault for a missing function, or results without declared element types.
        """
        names = [node.function("then_branch"), node.function("else_branch")]
        predicate = values[0]
        if predicate.data is not None and predicate.data.size == 1:
            return self._inline_function(names[0 if bool(predicate.data) else 1], values[1:], node)
        dtypes = result_dtypes(node, len(self.library.body(names[0]).results), ())
        return self._add_branch(node, values, list(map(self._template, names)), dtypes)

    def branch_parts(self, node: Node, values: list[Value]) -> Sequence[Value]:
        """Return the results of a branch of TensorFlow 1, one for each Merge; see `branch`. Raises Fault."""
        predicate, given = values[0], dict(zip(node.inputs[1:], values[1:], strict=True))
        no, yes = (wanted for wanted, _ in branch_parts(node))
        body = self._body
        if predicate.data is not None and predicate.data.size == 1:
            wanted = yes if bool(predicate.data) else no
            found = self._translate_inline(body, dict(given), wanted, f"the branch {node.name!r}")
            return [found[ref] for ref in wanted]
        dtypes = result_dtypes(node, len(yes), ())
        templates = [
            self.template(f"the branch {node.name!r}", body, given, wanted, [None] * len(wanted))
            for wanted in (yes, no)
        ]
        operands = [predicate, *(value for value in given.values() if value.data is None)]
        return self._add_branch(node, operands, templates, dtypes, _constants(given))

    def case(self, node: Node, values: list[Value]) -> Sequence[Value]:
        """Return the results of a Case of several functions, as nested branches. Raises Fault as `branch` does.

        The last function is also that of indices for which there is none.
        """
        names = node.functions("branches")
        index, *given = values
        if index.data is not None and index.data.size == 1:
            number = int(index.data.reshape(()))
            return self._inline_function(names[number if 0 <= number < len(names) else -1], given, node)
        dtypes = result_dtypes(node, len(self.library.body(names[0]).results), ())
        return self._add_case(node, values, list(map(self._template, names)), dtypes)

    def _add_case(
        self, node: Node, values: list[Value], templates: Sequence[Template], dtypes: Sequence[DType], first: int = 0
    ) -> Sequence[Value]:
        """Add a branch to the template with number `first`, if that is the first value, or to those behind it."""
        index, *given = values
        e, (yes, *others) = self.emitter, templates[first:]
        test = e.add("eq", index, e.scalar(first, index))
        if len(others) == 1:
            return self._add_branch(node, [test, *given], [yes, *others], dtypes, first)

        def build(forms: Sequence[Given]) -> Graph:
            inner = self.inner(Faults())
            operands = [inner.emitter.graph.input(f"operand{at}", *form) for at, form in enumerate(forms)]
            inner.emitter.name = node.name
            inner.finish(inner._add_case(node, operands, templates, dtypes, first + 1))  # noqa: SLF001 - one of its kind
            return inner.emitter.graph

        rest = Template(yes.name, (Value("index"), *yes.inputs), yes.outputs, build)

        def build_yes(forms: Sequence[Given]) -> Graph:
            graph = yes.build(forms[1:])
            graph.inputs.insert(0, Value(graph.unique_name("index"), *forms[0]))
            return graph

        taken = Template(yes.name, rest.inputs, yes.outputs, build_yes)
        return self._add_branch(node, [test, *values], [taken, rest], dtypes, first)

    def _add_branch(
        self,
        node: Node,
        values: list[Value],
        templates: Sequence[Template],
        dtypes: Sequence[DType],
        part: Hashable = None,
    ) -> Sequence[Value]:
        """Add a step that runs one of two templates, chosen by the first value, on the other values.

        `part` tells the templates of the node from its others. The native core runs it if neither side needs Python.
        Raises NeedsShapeError while shapes are not known.
        """
        if any(value.dtype is not string and not is_known(value) for value in values):
            raise NeedsShapeError
        sides: list[Graph | None] = [None, None]
        keys = [(self._number(node), part, side) for side in range(2)]
        if self.depth < MOST_NESTED and all(map(is_known, values)):
            forms = [(value.known_dtype, value.static_shape) for value in values[1:]]
            sides = [self._tried(key, template, forms) for key, template in zip(keys, templates, strict=True)]
        yes, no = sides
        if yes is not None and no is not None and decides(values[0]) and may_be_core(yes, no, dtypes):
            if not same_forms(yes.outputs, no.outputs):
                yes, no = (
                    self._made_later(key, template, values[1:], dtypes, side)
                    for key, template, side in zip(keys, templates, (yes, no), strict=True)
                )
            return self.emitter.add_many("branch", values, len(dtypes), yes=yes, no=no)
        found = add_call(self.emitter, node, values, Branches(*templates), dtypes)
        for value, *shapes in zip(found, *map(_shapes, sides), strict=False):
            value.shape = shapes[0] if shapes[0] == shapes[1] else None
        return found

    def _tried(self, key: Hashable, template: Template, forms: Sequence[Given]) -> Graph | None:
        """Return the graph of `template` for inputs of these forms, not to be changed; None if they do not fit."""
        infos, made = [Info(*form) for form in forms], self.library.made
        found: Graph | None = made.attempt(key, infos, partial(_built, template, forms))
        return None if found is None or made.is_large(found) else found

    def _made_later(
        self, key: Hashable, template: Template, values: Sequence[Value], dtypes: Sequence[DType], tried: Graph
    ) -> Graph:
        """Return `template`, tried already, for operands like `values` as a body that is made once shapes are known."""

        def build(infos: Sequence[Info]) -> Graph:
            forms = [(info.dtype, info.shape or ()) for info in infos]
            return self._tried(key, template, forms) or template.build(forms)

        made, kinds = self.library.made, tuple(value.known_dtype for value in values)
        name = self.emitter.name
        found = made.later((key, kinds), lambda: later_body(name, values, DeferredNodes(build, dtypes)))
        made.note_later(found, tried)
        return found

    def loop(self, node: Node, values: list[Value]) -> Sequence[Value]:
        """Return the results of a While of two functions, one for each variable. Raises Fault as `branch` does."""
        test, step = (prepared_function(self.library, node.function(name)) for name in ("cond", "body"))
        titles = [f"function {node.function(name)!r}" for name in ("cond", "body")]
        parts = [
            BodyPart(title, body, [(argument, 0) for argument in body.arguments], body.results)
            for title, body in zip(titles, (test, step), strict=True)
        ]
        return self._add_loop(node, values, parts, result_dtypes(node, len(values), values))

    def frame(self, node: Node, values: list[Value]) -> Sequence[Value]:
        """Return the results of a loop of TensorFlow 1 (see `frames`), one for each variable. Raises Fault."""
        title = f"the loop {node.name!r}"
        parts = [BodyPart(title, self._body, list(given), wanted) for wanted, given in frame_parts(node)]
        return self._add_loop(node, values, parts, result_dtypes(node, len(parts[1].wanted), ()))

    def _add_loop(
        self, node: Node, values: list[Value], parts: Sequence[BodyPart], dtypes: Sequence[DType]
    ) -> Sequence[Value]:
        """Add a step that repeats the second part while the first is true; the loop handles their lists."""
        test, step = parts
        found = self.native_loop(node, values, test, step)
        if found is None and any(value.dtype is string for value in values):
            with self.library.made.attempts() as is_allowed:
                found = loop_of_parts(self, node, values, test, step) if is_allowed else None
        if found is not None:
            return found
        split = split_body(step.body, step.given, [value.dtype is string for value in values], step.wanted)
        if split is None:
            count = len(step.wanted)
            both = self._step_and_test(step, test, [at if at < count else None for at in range(len(step.given))])
            return add_call(self.emitter, node, values, Loop(self._whole(test), both, count), dtypes)
        stepped, tested = _split_parts(step, test, split)
        both = self._step_and_test(stepped, tested, split.next_slots())
        return add_call(self.emitter, node, values, ListLoop(self._whole(tested), both, split), dtypes)

    def native_loop(
        self, node: Node, values: list[Value], test: BodyPart, step: BodyPart, grown: Collection[Ref] = ()
    ) -> Sequence[Value] | None:
        """Add a loop that the native core runs, and return its results; None if that is not possible.

        The results `grown` of the step are what an iteration appends to variables. Raises NeedsShapeError while shapes
        are not known.
        """
        split = split_body(step.body, step.given, [value.dtype is string for value in values], step.wanted)
        if split is None:
            return None
        stepped, tested = _split_parts(step, test, split)
        if any(not is_known(values[place]) for place in split.plain):
            raise NeedsShapeError
        both = self._step_and_test(stepped, tested, split.next_slots())
        with self.library.made.attempts() as is_allowed:
            if not is_allowed or self.depth >= MOST_NESTED:
                return None
            found = None if grown else self._add_core_loop(node, values, tested, both, split)
            return found or self._add_data_loop(node, values, stepped, tested, split, grown)

    def _add_core_loop(
        self, node: Node, values: list[Value], test: BodyPart, both: Template, split: SplitStep[Ref]
    ) -> Sequence[Value] | None:
        """Add a loop that the native core runs, and return its results.

        None if shapes are not known or change between iterations, if its body needs Python, or if a list is not read
        and written item by item.
        """
        plain = [values[place] for place in split.plain]
        reads = [access.parameter for access in split.reads]
        items = {place: self.lists.of(values[place]) for place in (*reads, *split.changed)}
        known = {place: found for place, found in items.items() if found is not None}
        item_forms = [known[place].form() for place in reads if place in known]
        if len(known) < len(items) or None in item_forms:
            return None
        key, infos = (self._number(node), "loop"), list(map(info_of, plain))
        if not items and self.library.made.failure(key, infos) is not None:
            return None
        forms: list[Given] = [(value.known_dtype, value.static_shape) for value in plain]
        body = _built(both, [*forms, *(form for form in item_forms if form is not None)])
        tested = _built(self._whole(test), forms)
        found = None
        if body is not None and tested is not None and not self.library.made.is_large(body):
            condition = self._condition(test, plain)
            found = CoreLoop(values, split, body, tested, known).add(self.emitter, condition)
        if found is None:
            self.library.made.fail(key, infos)
            return None
        changed, lists = found
        results = values[: len(split.lists)]
        for place in range(len(results)):
            if place in lists:
                results[place] = self.lists.add(self.emitter, node, lists[place])
            results[place] = changed.get(place, results[place])
        return results

    def _condition(self, test: BodyPart, plain: Sequence[Value]) -> Value:
        """Return whether there is a first iteration."""
        name = self.emitter.name
        env: Env = dict(zip(test.given, plain, strict=True))
        condition = self._translate_inline(test.body, env, test.wanted, test.title)[test.wanted[0]]
        self.emitter.name = name
        return condition

    def _add_data_loop(
        self,
        node: Node,
        values: list[Value],
        step: BodyPart,
        test: BodyPart,
        split: SplitStep[Ref],
        grown: Collection[Ref],
    ) -> Sequence[Value] | None:
        """Add a loop that the native core runs though shapes change between iterations, and return its results.

        None if it handles lists, or its body needs Python.
        """
        if any(split.lists) or not split.results:
            return None
        plain = [values[place] for place in split.plain]
        places = [split.plain.index(parameter) for parameter in split.results]
        same = [ref for place, ref in enumerate(step.given) if place not in places]
        ones = [ref for ref, value in zip(step.given, plain, strict=True) if ref in same and first_count(value) == 1]
        counters = {
            place: first
            for place, ref in zip(places, step.wanted, strict=False)
            if (first := first_count(plain[place])) is not None and adds_one(step.body, step.given[place], ref, ones)
        }
        slots = [slot for slot, place in enumerate(places) if place not in counters]
        carried = [places[slot] for slot in slots]
        if not carried:
            return None
        appended = [place for place, ref in zip(places, step.wanted, strict=False) if ref in grown]

        def build(infos: Sequence[Info]) -> Graph:
            graph = self._step_graph(step, test, split.next_slots(), infos)
            graph.outputs = [*(graph.outputs[slot] for slot in slots), graph.outputs[-1]]
            return graph

        def make() -> LaterLoop:
            return LaterLoop.of(self.emitter.name, plain, carried, build, appended=appended, counters=counters)

        key = (self._number(node), "later", tuple(value.known_dtype for value in plain), tuple(counters.items()))
        loop = self.library.made.later(key, make)
        try:
            made = loop.step(list(map(info_of, plain)))
        except OPERAND_ERRORS:
            return None
        if made is not None:
            if self.library.made.is_large(made) or needs_python(made):
                return None
            self.library.made.note_later(loop.body, made)
        found, count = loop.add(self.emitter, None, self._condition(test, plain), plain)
        results = values[: len(split.lists)]
        for place, value in zip(carried, found, strict=True):
            results[split.plain[place]] = value
        for place, first in counters.items():
            e, kind = self.emitter, plain[place].known_dtype
            results[split.plain[place]] = e.add("add", e.cast(count, kind), e.sizes(first, kind))
        return results

    def _number(self, node: Node) -> Hashable:
        """Return what keys of bodies of `node` begin with."""
        return self.library.made.number(node), self.depth

    def _step_and_test(self, step: BodyPart, test: BodyPart, next_slots: Sequence[int | None]) -> Template:
        """Return one template for a step and the test of the next iteration.

        `slots` says of each operand of the test which result of the step it is; None for what the step itself was
        given.
        """

        def build(forms: Sequence[Given]) -> Graph:
            return self._step_graph(step, test, next_slots, [Info(*form) for form in forms])

        inputs = tuple(Value(tensor_name(ref)) for ref in step.given)
        return Template(step.title, inputs, tuple(map(Value, result_names(len(step.wanted) + 1))), build)

    def _step_graph(
        self, step: BodyPart, test: BodyPart, next_slots: Sequence[int | None], infos: Sequence[Info]
    ) -> Graph:
        """Return the graph of a step and the test of the next iteration, for operands of which this is known."""
        faults = Faults()
        translation = self.inner(faults, deeper=True)
        e = translation.emitter
        operands = [given(e, tensor_name(ref), info) for ref, info in zip(step.given, infos, strict=True)]
        env: Env = dict(zip(step.given, operands, strict=True))
        translation.run(step.body, env, step.wanted)
        made = [env[ref] for ref in step.wanted if ref in env]
        faults.raise_all(step.title)
        tested = [operands[at] if slot is None else made[slot] for at, slot in enumerate(next_slots)]
        env = dict(zip(test.given, tested, strict=True))
        translation.run(test.body, env, test.wanted)
        faults.raise_all(test.title)
        translation.finish([*made, env[test.wanted[0]]])
        return e.graph

    def _whole(self, part: BodyPart) -> Template:
        """Return a part of a body as a template."""
        given = dict.fromkeys(part.given)
        return self.template(part.title, part.body, given, part.wanted, [None] * len(part.wanted))

    def _inline_function(self, name: str, values: list[Value], node: Node) -> Sequence[Value]:
        """Return the results of the function `name`, translated in place of `node`."""
        if self.depth >= MOST_NESTED:
            raise Unsupported(f"more than {MOST_NESTED} branches are inside one another")
        body = prepared_function(self.library, name)
        if len(body.arguments) != len(values):
            raise Fault(f"the function {name!r} takes {len(body.arguments)} inputs, got {len(values)}")
        env: Env = {(argument, 0): value for argument, value in zip(body.arguments, values, strict=True)}
        found = self._translate_inline(body, env, body.results, f"the function {name!r} of {node.place}")
        return [found[ref] for ref in body.results]

    def _translate_inline(self, body: Body, env: Env, wanted: Sequence[Ref], title: str) -> Env:
        """Translate what `wanted` depends on into this graph. Returns `env`, extended. Raises ModelError."""
        faults = Faults()
        inner = self.inner(faults, deeper=True, graph=self.emitter.graph)
        inner.lists = self.lists
        inner.run(body, env, wanted)
        faults.raise_all(title)
        return env

    def _template(self, name: str) -> Template:
        """Return the function `name` as a template."""
        body = prepared_function(self.library, name)
        return self._whole(BodyPart(f"function {name!r}", body, [(name, 0) for name in body.arguments], body.results))


def _split_parts(step: BodyPart, test: BodyPart, split: SplitStep[Ref]) -> tuple[BodyPart, BodyPart]:
    """Return the step and the test of a loop that is split. Its lists are given to neither."""
    tested = BodyPart(test.title, test.body, [test.given[place] for place in split.plain], test.wanted)
    return BodyPart(step.title, step.body, split.given, split.wanted), tested


def _constants(given: Mapping[Ref, Value]) -> Hashable:
    """Return what tells the constants among `given` tensors from others."""
    arrays = [(ref, value.data) for ref, value in given.items() if value.data is not None]
    return tuple((ref, array.dtype.str, array.shape, array.tobytes()) for ref, array in arrays)


def result_names(count: int) -> list[str]:
    """Return the names of so many results of a body."""
    return [f"result {at}" for at in range(count)]


def _built(template: Template, forms: Sequence[Given]) -> Graph | None:
    """Return the graph of `template` for inputs of these forms; None if they do not fit."""
    try:
        return template.build(forms)
    except OPERAND_ERRORS:
        return None


def _shapes(graph: Graph | None) -> list[StaticShape | None]:
    """Return the shapes of the results of `graph`; None for unknown ones."""
    if graph is None:
        return []
    return [value.static_shape if is_known(value) else None for value in graph.outputs]


def prepared_function(library: Library, name: str) -> Body:
    """Return the function `name`, prepared. Raises Fault."""
    return library.prepared(name, prepared)


def prepared(body: Body, library: Library) -> Body:
    """Return `body` with calls expanded, and loops and branches of TensorFlow 1 as single nodes. Raises Fault."""
    return resolve_frame_aliases(without_switches(without_frames(arrays_as_lists(expanded(body, library)))))
