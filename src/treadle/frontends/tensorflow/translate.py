"""Translation of the nodes of TensorFlow graphs to core nodes, for inputs of known shapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from treadle.dtypes import DType, from_numpy
from treadle.errors import TreadleError
from treadle.frontends.deferred_nodes import NeedsShapeError
from treadle.frontends.faults import Fault, Faults, Unsupported
from treadle.frontends.tensorflow.body import Body, Library, ordered
from treadle.frontends.tensorflow.calls import add_call
from treadle.frontends.tensorflow.control import DeferredNode, DeferredPart
from treadle.frontends.tensorflow.control_nodes import OPERAND_ERRORS, ControlNodes, Env, result_names
from treadle.frontends.tensorflow.core_lists import ListItems
from treadle.frontends.tensorflow.declared import constant_array, declared_dtype
from treadle.frontends.tensorflow.deferred_parts import add_deferred_part, asked_operand
from treadle.frontends.tensorflow.describe import Describer
from treadle.frontends.tensorflow.emitter import Emitter
from treadle.frontends.tensorflow.frames import FRAME
from treadle.frontends.tensorflow.node import Node, Ref, tensor_name
from treadle.frontends.tensorflow.nodes import rule_of
from treadle.frontends.tensorflow.outlook import Outlook
from treadle.frontends.tensorflow.switches import SIDES
from treadle.graph.graph import Graph
from treadle.graph.template import Form as Given
from treadle.graph.template import Template
from treadle.graph.value import Value
from treadle.ops.op import Info

WITHOUT_RESULTS = ("NoOp", "Assert", "PrintV2", "TensorArrayCloseV3")


class Translation(ControlNodes):
    """Translates the nodes of one body into one graph."""

    def __init__(self, library: Library, faults: Faults, graph: Graph | None = None, depth: int = 0) -> None:
        super().__init__(library, depth)
        self.lists = ListItems(defers=True)
        self._asked: dict[str, Value | None] = {}
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
            except NeedsShapeError as need:
                self._asked[node.name] = need.value
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
        rule = rule_of(node.op)
        if rule is not None:
            return self.lists.emit(self.emitter, node, values, rule)
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

    def inner(self, faults: Faults, *, deeper: bool = False, graph: Graph | None = None) -> Translation:
        """Return what translates into a `graph` of its own, or this one."""
        return Translation(self.library, faults, graph, self.depth + deeper)

    def rank_of(self, body: Body, given: Mapping[Ref, Info], ref: Ref) -> int | None:
        """Return the rank of a tensor of `body`, where `given` ones have these shapes; None if it is not certain."""
        try:
            (found,) = Outlook(self.library, Describer()).results(body, given, [ref])
        except Fault:
            return None
        return None if found.shape is None else len(found.shape)

    def finish(self, values: Sequence[Value]) -> None:
        """Make `values` the outputs of the graph."""
        self.emitter.finish(values, result_names(len(values)))

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

        def build(forms: Sequence[Given]) -> Graph:
            faults = Faults()
            translation = self.inner(faults, deeper=True)
            graph = translation.emitter.graph
            env: Env = {ref: value for ref, value in given.items() if value is not None and value.data is not None}
            for ref, (dtype, shape) in zip(names, forms, strict=True):
                env[ref] = graph.input(tensor_name(ref), dtype, shape)
            translation.run(body, env, wanted)
            faults.raise_all(title)
            translation.finish([env[ref] for ref in wanted])
            return graph

        inputs = tuple(Value(tensor_name(ref), _known_dtype(given[ref])) for ref in names)
        outputs = tuple(Value(name, dtype) for name, dtype in zip(result_names(len(wanted)), dtypes, strict=True))
        return Template(title, inputs, outputs, build)

    def _defer(self, body: Body, env: Env, deferred: list[Node], wanted: Sequence[Ref]) -> None:
        """Add one node for all of `deferred`, which the native core makes once it knows what they need.

        Where it cannot, it is a Python step. Where the shapes are known and only a value is missing, that is one for
        each of them.
        """
        first = deferred[0]
        values = [env[ref] for ref in first.inputs]
        self.emitter.name = first.name
        names = {node.name for node in deferred}
        results = [ref for ref in dict.fromkeys(wanted) if ref not in env and ref[0] in names]
        numbers = self._numbers(env, deferred)
        if numbers is not None:
            pairs = [(ref, declared_dtype(body.nodes[ref[0]], ref[1])) for ref in results]
            if add_deferred_part(self, "the part that begins there", body, env, names, pairs, numbers):
                return
        form = rule_of(first.op)
        if form is not None and all(map(self.lists.is_known, values)):
            count = 1 + max(index for name, index in _tensors_read(deferred, wanted) if name == first.name)
            dtypes = [form.dtype_of(first, index) for index in range(count)]
            made = add_call(self.emitter, first, values, DeferredNode(first, form, dtypes), dtypes)
            env.update(((first.name, index), value) for index, value in enumerate(made))
            self.run(body, env, wanted)
            return
        reads = {ref: env[ref] for node in deferred for ref in node.inputs if ref in env}
        dtypes = [declared_dtype(body.nodes[name], index) for name, index in results]
        template = self.template("the part that begins there", body, reads, results, dtypes)
        operands = [value for value in reads.values() if value.data is None]
        made = add_call(self.emitter, first, operands, DeferredPart(template), dtypes)
        env.update(zip(results, made, strict=True))

    def _numbers(self, env: Env, deferred: Sequence[Node]) -> list[Ref] | None:
        """Return the tensors whose elements decide sizes of deferred nodes that have all their operands.

        None if there are other reasons why these cannot be translated.
        """
        found: dict[Ref, None] = {}
        for node in deferred:
            operands = [env.get(ref) for ref in node.inputs]
            values = [value for value in operands if value is not None]
            if len(values) < len(operands) or not all(map(self.lists.is_known, values)):
                continue
            place = asked_operand(values, self._asked[node.name])
            if place is None:
                return None
            found[node.inputs[place]] = None
        return list(found)


def _tensors_read(nodes: Sequence[Node], wanted: Sequence[Ref]) -> list[Ref]:
    return [*wanted, *(ref for node in nodes for ref in node.inputs)]


def _known_dtype(value: Value | None) -> DType | None:
    return None if value is None else value.dtype


def _message(error: BaseException) -> str:
    return error.what if isinstance(error, TreadleError) else f"{type(error).__name__}: {error}"


_STRUCTURE: dict[str, Callable[[Translation, Node, list[Value]], Sequence[Value]]] = {
    **dict.fromkeys(WITHOUT_RESULTS, Translation.nothing),
    **dict.fromkeys(("If", "StatelessIf"), Translation.branch),
    **dict.fromkeys(("Case", "StatelessCase"), Translation.case),
    **dict.fromkeys(("While", "StatelessWhile"), Translation.loop),
    **dict.fromkeys(("Placeholder", "PlaceholderV2"), Translation.placeholder),
    SIDES: Translation.branch_parts,
    FRAME: Translation.frame,
    "Const": Translation.constant,
    "Print": Translation.print,
}
"""Ops for control flow, inputs and constants, which have no rule."""
