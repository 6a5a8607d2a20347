"""Nodes of TensorFlow graphs to core nodes, for inputs of known shapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from weft.dtypes import DType, from_numpy
from weft.errors import WeftError
from weft.frontends.faults import Fault, Faults, Unsupported
from weft.frontends.tensorflow.body import Body, Library, expanded, ordered
from weft.frontends.tensorflow.control import Branches, Loop, Rest, Single, add_call, result_dtypes
from weft.frontends.tensorflow.emitter import Emitter, NeedsShapeError
from weft.frontends.tensorflow.frames import FRAME, inside, without_frames
from weft.frontends.tensorflow.node import Node, Ref, spelled
from weft.frontends.tensorflow.nodes import NODES
from weft.frontends.tensorflow.switches import CHOICE, without_switches
from weft.graph.graph import Graph
from weft.graph.shape import is_static
from weft.graph.template import Form as Given
from weft.graph.template import Template
from weft.graph.value import Value
from weft.ops.op import Array

NOTHING = ("NoOp", "Assert", "PrintV2")
MOST_NESTED = 32
"""Branches inside branches that are replaced by the side taken."""
MISFITS = (WeftError, ValueError, TypeError, LookupError, ArithmeticError, MemoryError)
"""What rules raise for operands and attributes that do not fit them."""

Env = dict[Ref, Value]


class Translation:
    """Translates the nodes of one body into one graph."""

    def __init__(self, library: Library, faults: Faults, graph: Graph | None = None, depth: int = 0) -> None:
        self.depth = depth
        self.library = library
        self._body = Body({})
        self.faults = faults
        self.emitter = Emitter(Graph("tensorflow") if graph is None else graph)

    def run(self, body: Body, env: Env, wanted: Sequence[Ref]) -> None:
        """Add to `env`, which holds the given tensors, what `wanted` depends on. Faults are noted.

        What cannot go on before a run tells a shape becomes one node, which is translated and compiled when it does.
        """
        self._body = body
        late: dict[str, Node] = {}
        for node in ordered(body, wanted, env):
            if any(name in late for name, index in node.inputs if (name, index) not in env):
                late[node.name] = node
                continue
            if any(ref not in env for ref in node.inputs):
                continue  # it reads the result of a node with a fault, which is noted already
            self.emitter.name = node.name
            before = len(self.emitter.graph.nodes)
            try:
                found = self._made(node, [env[ref] for ref in node.inputs])
            except NeedsShapeError:
                late[node.name] = node
                continue
            except Fault as fault:
                del self.emitter.graph.nodes[before:]
                self.faults.add(node.place, fault)
                continue
            except MISFITS as error:
                del self.emitter.graph.nodes[before:]
                self.faults.add(node.place, _told(error))
                continue
            env.update(((node.name, index), value) for index, value in enumerate(found))
        if late:
            self._postpone(body, env, list(late.values()), wanted)

    def _made(self, node: Node, values: list[Value]) -> Sequence[Value]:
        """The results of `node`. Raises Fault, NeedsShapeError, or what rules raise."""
        if node.op in NODES:
            return NODES[node.op].emit(self.emitter, node, values)
        if node.op not in _STRUCTURE:
            raise Unsupported("weft does not have this op")
        return _STRUCTURE[node.op](self, node, values)

    def constant(self, node: Node, _: list[Value]) -> Sequence[Value]:
        array = constant_array(node)
        if array.size > 1 and not any(array.strides):
            return [self.emitter.full(array.shape, array.flat[0], from_numpy(array.dtype))]
        return [Value.constant(self.emitter.graph.unique_name(node.name), array)]

    def placeholder(self, _: Node, __: list[Value]) -> Sequence[Value]:
        raise Fault("it is an input that is not among the inputs asked for")

    def print(self, _: Node, values: list[Value]) -> Sequence[Value]:
        return [self.emitter.add("identity", values[0])]

    def nothing(self, _: Node, __: list[Value]) -> Sequence[Value]:
        return []

    def choice(self, _: Node, values: list[Value]) -> Sequence[Value]:
        return [choice(self.emitter, *values)]

    def branch(self, node: Node, values: list[Value]) -> Sequence[Value]:
        names = [node.function("then_branch"), node.function("else_branch")]
        predicate = values[0]
        if predicate.data is not None and predicate.data.size == 1:
            return self._inlined(names[0 if bool(predicate.data) else 1], values[1:], node)
        dtypes = result_dtypes(node, len(self.library.body(names[0]).results), ())
        return add_call(self.emitter, node, values, Branches(*map(self._template, names)), dtypes)

    def loop(self, node: Node, values: list[Value]) -> Sequence[Value]:
        loop = Loop(self._template(node.function("cond")), self._template(node.function("body")))
        return add_call(self.emitter, node, values, loop, result_dtypes(node, len(values), values))

    def frame(self, node: Node, values: list[Value]) -> Sequence[Value]:
        body = self._body
        parts = [
            self.template(f"the loop {node.name!r}", body, given, wanted, [None] * len(wanted))
            for wanted, given in inside(node)
        ]
        return add_call(self.emitter, node, values, Loop(*parts), result_dtypes(node, len(parts[1].outputs), ()))

    def _inlined(self, name: str, values: list[Value], node: Node) -> Sequence[Value]:
        """The results of the function `name`, its nodes in place of `node`."""
        if self.depth >= MOST_NESTED:
            raise Unsupported(f"more than {MOST_NESTED} branches are inside one another")
        body = prepared(self.library.body(name), self.library)
        if len(body.arguments) != len(values):
            raise Fault(f"the function {name!r} takes {len(body.arguments)} inputs, got {len(values)}")
        env: Env = {(argument, 0): value for argument, value in zip(body.arguments, values, strict=True)}
        faults = Faults()
        inner = Translation(self.library, faults, self.emitter.graph, self.depth + 1)
        inner.run(body, env, body.results)
        faults.raise_all(f"the function {name!r} of {node.place}")
        return [env[ref] for ref in body.results]

    def _template(self, name: str) -> Template:
        """The function `name` as a template."""
        body = prepared(self.library.body(name), self.library)
        given = {(argument, 0): None for argument in body.arguments}
        return self.template(f"function {name!r}", body, given, body.results, [None] * len(body.results))

    def template(
        self,
        title: str,
        body: Body,
        given: Mapping[Ref, Value | None],
        wanted: Sequence[Ref],
        dtypes: Sequence[DType | None],
    ) -> Template:
        """The part of `body` from `given` tensors to `wanted`; given constants are compiled in."""
        names = [ref for ref, value in given.items() if value is None or value.data is None]
        library = self.library

        def build(forms: Sequence[Given]) -> Graph:
            faults = Faults()
            translation = Translation(library, faults)
            graph = translation.emitter.graph
            env: Env = {ref: value for ref, value in given.items() if value is not None and value.data is not None}
            for ref, (dtype, shape) in zip(names, forms, strict=True):
                env[ref] = graph.input(spelled(ref), dtype, shape)
            translation.run(body, env, wanted)
            faults.raise_all(title)
            finish(graph, [env[ref] for ref in wanted], [f"result {at}" for at in range(len(wanted))])
            return graph

        inputs = tuple(Value(spelled(ref), _known_dtype(given[ref])) for ref in names)
        outputs = tuple(Value(f"result {at}", dtype) for at, dtype in enumerate(dtypes))
        return Template(title, inputs, outputs, build)

    def _postpone(self, body: Body, env: Env, late: list[Node], wanted: Sequence[Ref]) -> None:
        """One node for all of `late`, or, where shapes are known and a value is missing, one for each of them."""
        first = late[0]
        values = [env[ref] for ref in first.inputs]
        self.emitter.name = first.name
        if all(value.shape is not None and is_static(value.shape) for value in values):
            form = NODES[first.op]
            count = 1 + max(index for name, index in _read(late, wanted) if name == first.name)
            dtypes = [form.dtype_of(first, index) for index in range(count)]
            made = add_call(self.emitter, first, values, Single(first, form, dtypes), dtypes)
            env.update(((first.name, index), value) for index, value in enumerate(made))
            self.run(body, env, wanted)
            return
        names = {node.name for node in late}
        reads = {ref: env[ref] for node in late for ref in node.inputs if ref in env}
        results = [ref for ref in dict.fromkeys(wanted) if ref not in env and ref[0] in names]
        dtypes = [stated(body.nodes[name], index) for name, index in results]
        template = self.template("the part that begins there", body, reads, results, dtypes)
        operands = [value for value in reads.values() if value.data is None]
        made = add_call(self.emitter, first, operands, Rest(template), dtypes)
        env.update(zip(results, made, strict=True))


def constant_array(node: Node) -> Array:
    """The value of a Const. Raises Fault if it has none."""
    array = node.attr("value")
    if not isinstance(array, np.ndarray):
        raise Fault("it has no value")
    return array


def choice(e: Emitter, predicate: Value, no: Value, yes: Value) -> Value:
    """What a Merge takes. Raises Unsupported if the two sides differ in shape and only a run tells which one it is."""
    if predicate.data is not None:
        return yes if bool(predicate.data) else no
    if e.shape(no) != e.shape(yes):
        raise Unsupported("its two sides have different shapes; freeze the graph with TensorFlow 2's tf.cond")
    return e.add("where", predicate, yes, no)


def _read(nodes: Sequence[Node], wanted: Sequence[Ref]) -> list[Ref]:
    return [*wanted, *(ref for node in nodes for ref in node.inputs)]


def _known_dtype(value: Value | None) -> DType | None:
    return None if value is None else value.dtype


def _told(error: BaseException) -> str:
    return error.what if isinstance(error, WeftError) else f"{type(error).__name__}: {error}"


def stated(node: Node, index: int) -> DType:
    """What result `index` of `node` is, by what the node says."""
    if node.op in NODES:
        return NODES[node.op].dtype_of(node, index)
    if node.op in ("Placeholder", "PlaceholderV2", "Const"):
        found = node.attr("dtype")
        if not isinstance(found, DType):
            raise Fault("it does not state its element type")
        return found
    return result_dtypes(node, index + 1, ())[index]


def finish(graph: Graph, values: Sequence[Value], names: Sequence[str]) -> None:
    """Make `values` the outputs of `graph`, called `names`."""
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
    """`body` with calls expanded, and loops and branches of TensorFlow 1 as single nodes. Raises Fault."""
    return without_switches(without_frames(expanded(body, library)))


_STRUCTURE: dict[str, Callable[[Translation, Node, list[Value]], Sequence[Value]]] = {
    **dict.fromkeys(NOTHING, Translation.nothing),
    **dict.fromkeys(("If", "StatelessIf"), Translation.branch),
    **dict.fromkeys(("While", "StatelessWhile"), Translation.loop),
    **dict.fromkeys(("Placeholder", "PlaceholderV2"), Translation.placeholder),
    CHOICE: Translation.choice,
    FRAME: Translation.frame,
    "Const": Translation.constant,
    "Print": Translation.print,
}
"""Ops of which the graph itself is made."""
