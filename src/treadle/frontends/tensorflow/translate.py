"""Translation of the nodes of TensorFlow graphs to core nodes, for inputs of known shapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from treadle.dtypes import DType, from_numpy, string
from treadle.errors import TreadleError
from treadle.frontends.faults import Fault, Faults, Unsupported
from treadle.frontends.tensorflow.body import Body, Library, expanded, ordered
from treadle.frontends.tensorflow.body_steps import split_body
from treadle.frontends.tensorflow.calls import add_call
from treadle.frontends.tensorflow.control import Branches, DeferredNode, DeferredPart, ListLoop, Loop, result_dtypes
from treadle.frontends.tensorflow.core_control import agree, decides
from treadle.frontends.tensorflow.core_lists import ListItems
from treadle.frontends.tensorflow.core_loops import CoreLoop
from treadle.frontends.tensorflow.emitter import Emitter, NeedsShapeError
from treadle.frontends.tensorflow.frames import FRAME, frame_parts, resolve_frame_aliases, without_frames
from treadle.frontends.tensorflow.list_loops import SplitStep
from treadle.frontends.tensorflow.node import Node, Ref, tensor_name
from treadle.frontends.tensorflow.nodes import NODES
from treadle.frontends.tensorflow.switches import SIDES, branch_parts, without_switches
from treadle.frontends.tensorflow.tensor_arrays import arrays_as_lists
from treadle.graph.graph import Graph
from treadle.graph.shape import StaticShape, is_static
from treadle.graph.template import Form as Given
from treadle.graph.template import Template
from treadle.graph.value import Value
from treadle.ops.op import Array

WITHOUT_RESULTS = ("NoOp", "Assert", "PrintV2", "TensorArrayCloseV3")
MOST_NESTED = 32
"""The deepest nesting of branches with constant predicates."""
MOST_TRIED = 3
"""The deepest nesting at which both sides of a branch are translated in advance to see whether their shapes agree."""
OPERAND_ERRORS = (TreadleError, ValueError, TypeError, LookupError, ArithmeticError, MemoryError)
"""What rules raise for operands and attributes that do not fit."""

Env = dict[Ref, Value]


@dataclass(frozen=True, slots=True)
class BodyPart:
    """The part of a body between `given` tensors and `wanted` ones."""

    title: str
    body: Body
    given: list[Ref]
    wanted: list[Ref]


class Translation:
    """Translates the nodes of one body into one graph."""

    def __init__(self, library: Library, faults: Faults, graph: Graph | None = None, depth: int = 0) -> None:
        self.depth = depth
        self.lists = ListItems()
        self.library = library
        self._body = Body({})
        self.faults = faults
        self.emitter = Emitter(Graph("tensorflow") if graph is None else graph)

    def run(self, body: Body, env: Env, wanted: Sequence[Ref]) -> None:
        """Add the tensors that `wanted` depend on to `env`, which holds the given ones. Adds what is wrong to `faults`.

        Nodes that need a shape or value of the run become one node, which is translated and compiled during the run.
        """
        self._body = body
        deferred: dict[str, Node] = {}
        for node in ordered(body, wanted, env):
            if any(name in deferred for name, index in node.inputs if (name, index) not in env):
                deferred[node.name] = node
                continue
            if any(ref not in env for ref in node.inputs):
                continue  # it reads the result of a faulty node, which is reported already
            self.emitter.name = node.name
            before = len(self.emitter.graph.nodes)
            try:
                found = self._translate(node, [env[ref] for ref in node.inputs])
            except NeedsShapeError:
                deferred[node.name] = node
                continue
            except Fault as fault:
                del self.emitter.graph.nodes[before:]
                self.faults.add(node.place, fault)
                continue
            except OPERAND_ERRORS as error:
                del self.emitter.graph.nodes[before:]
                self.faults.add(node.place, _message(error))
                continue
            env.update(((node.name, index), value) for index, value in enumerate(found))
        if deferred:
            self._defer(body, env, list(deferred.values()), wanted)

    def _translate(self, node: Node, values: list[Value]) -> Sequence[Value]:
        """Return the results of `node`. Raises Fault, NeedsShapeError, or what rules raise."""
        if node.op in NODES:
            return self.lists.emit(self.emitter, node, values, NODES[node.op])
        if node.op not in _STRUCTURE:
            raise Unsupported("treadle does not have this op")
        return _STRUCTURE[node.op](self, node, values)

    def constant(self, node: Node, _: list[Value]) -> Sequence[Value]:
        array = constant_array(node)
        if array.size > 1 and not any(array.strides):
            return [self.emitter.full(array.shape, array.flat[0], from_numpy(array.dtype))]
        return [Value.constant(self.emitter.graph.unique_name(node.name), array)]

    def placeholder(self, _: Node, __: list[Value]) -> Sequence[Value]:
        raise Fault("it is an input, but not among the inputs requested")

    def print(self, _: Node, values: list[Value]) -> Sequence[Value]:
        return [self.emitter.add("identity", values[0])]

    def nothing(self, _: Node, __: list[Value]) -> Sequence[Value]:
        return []

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
        return self._add_branch(node, operands, templates, dtypes)

    def _add_branch(
        self, node: Node, values: list[Value], templates: Sequence[Template], dtypes: Sequence[DType]
    ) -> Sequence[Value]:
        """Add a step that runs one of two templates, chosen by the first value, on the other values.

        The native core runs it if shapes are known and agree, and neither side needs Python.
        """
        sides: list[Graph | None] = [None, None]
        if self.depth < MOST_TRIED and all(value.shape is not None and is_static(value.shape) for value in values):
            sides = [
                _built(template, [(value.known_dtype, value.static_shape) for value in values[1:]])
                for template in templates
            ]
        yes, no = sides
        if yes is not None and no is not None and decides(values[0]) and agree(yes, no, dtypes):
            return self.emitter.add_many("branch", values, len(dtypes), yes=yes, no=no)
        found = add_call(self.emitter, node, values, Branches(*templates), dtypes)
        for value, *shapes in zip(found, *map(_shapes, sides), strict=False):
            value.shape = shapes[0] if shapes[0] == shapes[1] else None
        return found

    def loop(self, node: Node, values: list[Value]) -> Sequence[Value]:
        """Return the results of a While of two functions, one for each variable. Raises Fault as `branch` does."""
        test, step = (prepared(self.library.body(node.function(name)), self.library) for name in ("cond", "body"))
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
        split = split_body(step.body, step.given, [value.dtype is string for value in values], step.wanted)
        if split is None:
            count = len(step.wanted)
            both = self._step_and_test(step, test, [at if at < count else None for at in range(len(step.given))])
            return add_call(self.emitter, node, values, Loop(self._whole(test), both, count), dtypes)
        tested = BodyPart(test.title, test.body, [test.given[place] for place in split.plain], test.wanted)
        stepped = BodyPart(step.title, step.body, split.given, split.wanted)
        both = self._step_and_test(stepped, tested, split.next_slots())
        found = self._add_core_loop(node, values, tested, both, split)
        if found is not None:
            return found
        return add_call(self.emitter, node, values, ListLoop(self._whole(tested), both, split), dtypes)

    def _add_core_loop(
        self, node: Node, values: list[Value], test: BodyPart, both: Template, split: SplitStep[Ref]
    ) -> Sequence[Value] | None:
        """Add a loop that the native core runs, and return its results.

        None if shapes are not known or change between iterations, if its body needs Python, or if a list is not read
        and written item by item.
        """
        plain = [values[place] for place in split.plain]
        if self.depth >= MOST_TRIED or not all(value.shape is not None and is_static(value.shape) for value in plain):
            return None
        reads = [access.parameter for access in split.reads]
        items = {place: self.lists.of(values[place]) for place in (*reads, *split.changed)}
        known = {place: found for place, found in items.items() if found is not None}
        item_forms = [known[place].form() for place in reads if place in known]
        if len(known) < len(items) or None in item_forms:
            return None
        forms: list[Given] = [(value.known_dtype, value.static_shape) for value in plain]
        body = _built(both, [*forms, *(form for form in item_forms if form is not None)])
        tested = _built(self._whole(test), forms)
        if body is None or tested is None:
            return None
        name = self.emitter.name
        given: Env = dict(zip(test.given, plain, strict=True))
        condition = self._translate_inline(test.body, given, test.wanted, test.title)[test.wanted[0]]
        self.emitter.name = name
        found = CoreLoop(values, split, body, tested, known).add(self.emitter, condition)
        if found is None:
            return None
        changed, lists = found
        results = values[: len(split.lists)]
        for place in range(len(results)):
            if place in lists:
                results[place] = self.lists.add(self.emitter, node, lists[place])
            results[place] = changed.get(place, results[place])
        return results

    def _step_and_test(self, step: BodyPart, test: BodyPart, next_slots: Sequence[int | None]) -> Template:
        """Return one template for a step and the test of the next iteration.

        `slots` says of each operand of the test which result of the step it is; None for what the step itself was
        given.
        """
        library, depth = self.library, self.depth + 1

        def build(forms: Sequence[Given]) -> Graph:
            faults = Faults()
            translation = Translation(library, faults, depth=depth)
            graph = translation.emitter.graph
            given = [graph.input(tensor_name(ref), *form) for ref, form in zip(step.given, forms, strict=True)]
            env: Env = dict(zip(step.given, given, strict=True))
            translation.run(step.body, env, step.wanted)
            made = [env[ref] for ref in step.wanted if ref in env]
            faults.raise_all(step.title)
            tested = [given[at] if slot is None else made[slot] for at, slot in enumerate(next_slots)]
            env = dict(zip(test.given, tested, strict=True))
            translation.run(test.body, env, test.wanted)
            faults.raise_all(test.title)
            finish(graph, [*made, env[test.wanted[0]]], _result_names(len(made) + 1))
            return graph

        inputs = tuple(Value(tensor_name(ref)) for ref in step.given)
        return Template(step.title, inputs, tuple(map(Value, _result_names(len(step.wanted) + 1))), build)

    def _whole(self, part: BodyPart) -> Template:
        """Return a part of a body as a template."""
        given = dict.fromkeys(part.given)
        return self.template(part.title, part.body, given, part.wanted, [None] * len(part.wanted))

    def _inline_function(self, name: str, values: list[Value], node: Node) -> Sequence[Value]:
        """Return the results of the function `name`, translated in place of `node`."""
        if self.depth >= MOST_NESTED:
            raise Unsupported(f"more than {MOST_NESTED} branches are inside one another")
        body = prepared(self.library.body(name), self.library)
        if len(body.arguments) != len(values):
            raise Fault(f"the function {name!r} takes {len(body.arguments)} inputs, got {len(values)}")
        env: Env = {(argument, 0): value for argument, value in zip(body.arguments, values, strict=True)}
        found = self._translate_inline(body, env, body.results, f"the function {name!r} of {node.place}")
        return [found[ref] for ref in body.results]

    def _translate_inline(self, body: Body, env: Env, wanted: Sequence[Ref], title: str) -> Env:
        """Translate what `wanted` depends on into this graph. Returns `env`, extended. Raises ModelError."""
        faults = Faults()
        inner = Translation(self.library, faults, self.emitter.graph, self.depth + 1)
        inner.lists = self.lists
        inner.run(body, env, wanted)
        faults.raise_all(title)
        return env

    def _template(self, name: str) -> Template:
        """Return the function `name` as a template."""
        body = prepared(self.library.body(name), self.library)
        return self._whole(BodyPart(f"function {name!r}", body, [(name, 0) for name in body.arguments], body.results))

    def template(
        self,
        title: str,
        body: Body,
        given: Mapping[Ref, Value | None],
        wanted: Sequence[Ref],
        dtypes: Sequence[DType | None],
    ) -> Template:
        """Return the part of `body` from `given` to `wanted` as a template, with given constants compiled in."""
        names = [ref for ref, value in given.items() if value is None or value.data is None]
        library, depth = self.library, self.depth + 1

        def build(forms: Sequence[Given]) -> Graph:
            faults = Faults()
            translation = Translation(library, faults, depth=depth)
            graph = translation.emitter.graph
            env: Env = {ref: value for ref, value in given.items() if value is not None and value.data is not None}
            for ref, (dtype, shape) in zip(names, forms, strict=True):
                env[ref] = graph.input(tensor_name(ref), dtype, shape)
            translation.run(body, env, wanted)
            faults.raise_all(title)
            finish(graph, [env[ref] for ref in wanted], _result_names(len(wanted)))
            return graph

        inputs = tuple(Value(tensor_name(ref), _known_dtype(given[ref])) for ref in names)
        outputs = tuple(Value(name, dtype) for name, dtype in zip(_result_names(len(wanted)), dtypes, strict=True))
        return Template(title, inputs, outputs, build)

    def _defer(self, body: Body, env: Env, deferred: list[Node], wanted: Sequence[Ref]) -> None:
        """Add one node for all of `deferred`.

        Where the shapes are known and only a value is missing, it is one node for each of them.
        """
        first = deferred[0]
        values = [env[ref] for ref in first.inputs]
        self.emitter.name = first.name
        if all(value.shape is not None and is_static(value.shape) for value in values):
            form = NODES[first.op]
            count = 1 + max(index for name, index in _tensors_read(deferred, wanted) if name == first.name)
            dtypes = [form.dtype_of(first, index) for index in range(count)]
            made = add_call(self.emitter, first, values, DeferredNode(first, form, dtypes), dtypes)
            env.update(((first.name, index), value) for index, value in enumerate(made))
            self.run(body, env, wanted)
            return
        names = {node.name for node in deferred}
        reads = {ref: env[ref] for node in deferred for ref in node.inputs if ref in env}
        results = [ref for ref in dict.fromkeys(wanted) if ref not in env and ref[0] in names]
        dtypes = [declared_dtype(body.nodes[name], index) for name, index in results]
        template = self.template("the part that begins there", body, reads, results, dtypes)
        operands = [value for value in reads.values() if value.data is None]
        made = add_call(self.emitter, first, operands, DeferredPart(template), dtypes)
        env.update(zip(results, made, strict=True))


def constant_array(node: Node) -> Array:
    """Return the value of a Const. Raises Fault if it has none."""
    array = node.attr("value")
    if not isinstance(array, np.ndarray):
        raise Fault("it has no value")
    return array


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
    return [
        value.static_shape if value.shape is not None and is_static(value.shape) else None for value in graph.outputs
    ]


def _result_names(count: int) -> list[str]:
    return [f"result {at}" for at in range(count)]


def _tensors_read(nodes: Sequence[Node], wanted: Sequence[Ref]) -> list[Ref]:
    return [*wanted, *(ref for node in nodes for ref in node.inputs)]


def _known_dtype(value: Value | None) -> DType | None:
    return None if value is None else value.dtype


def _message(error: BaseException) -> str:
    return error.what if isinstance(error, TreadleError) else f"{type(error).__name__}: {error}"


def declared_dtype(node: Node, index: int) -> DType:
    """Return the element type of result `index` according to the attributes of `node`."""
    if node.op in NODES:
        return NODES[node.op].dtype_of(node, index)
    if node.op in ("Placeholder", "PlaceholderV2", "Const"):
        found = node.attr("dtype")
        if not isinstance(found, DType):
            raise Fault("it does not state its element type")
        return found
    return result_dtypes(node, index + 1, ())[index]


def finish(graph: Graph, values: Sequence[Value], names: Sequence[str]) -> None:
    """Make `values` the outputs of `graph`, under `names`."""
    emitter = Emitter(graph)
    taken: set[Value] = set(graph.inputs)
    for value, name in zip(values, names, strict=True):
        emitter.name = name
        found = value
        if value in taken or value.producer is None:
            node = graph.add("identity", [value], name=name)
            found = node.output
            found.dtype, found.shape = value.dtype, value.shape
        taken.add(found)
        found.name = name
        graph.outputs.append(found)


def prepared(body: Body, library: Library) -> Body:
    """Return `body` with calls expanded, and loops and branches of TensorFlow 1 as single nodes. Raises Fault."""
    return resolve_frame_aliases(without_switches(without_frames(arrays_as_lists(expanded(body, library)))))


_STRUCTURE: dict[str, Callable[[Translation, Node, list[Value]], Sequence[Value]]] = {
    **dict.fromkeys(WITHOUT_RESULTS, Translation.nothing),
    **dict.fromkeys(("If", "StatelessIf"), Translation.branch),
    **dict.fromkeys(("While", "StatelessWhile"), Translation.loop),
    **dict.fromkeys(("Placeholder", "PlaceholderV2"), Translation.placeholder),
    SIDES: Translation.branch_parts,
    FRAME: Translation.frame,
    "Const": Translation.constant,
    "Print": Translation.print,
}
"""Ops for control flow, inputs and constants, which have no rule."""
