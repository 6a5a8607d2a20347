"""From a parsed ONNX model to a Graph: walks the nodes in order and lets each one's rule build core nodes."""

from collections import ChainMap
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import onnx

from treadle.frontends.faults import Fault, Faults
from treadle.frontends.onnx.build import Builder
from treadle.frontends.onnx.caps import cap_workers
from treadle.frontends.onnx.check import check_model
from treadle.frontends.onnx.describe import type_text
from treadle.frontends.onnx.foreign import Binding, Opaque, add_call, object_function, opaque_tensor, reads_opaque
from treadle.frontends.onnx.functions import attributes_of, index, key_of, resolved
from treadle.frontends.onnx.known import Known
from treadle.frontends.onnx.loops import Formal, Imported, Retries, add_loop, loop_node, scan_node, scan_results
from treadle.frontends.onnx.microsoft_table import RULES as MICROSOFT_RULES
from treadle.frontends.onnx.ml_table import RULES as ML_RULES
from treadle.frontends.onnx.names import captured, execution_order, node_name, place, reads
from treadle.frontends.onnx.node import OnnxNode
from treadle.frontends.onnx.opsets import domain_of, signature
from treadle.frontends.onnx.opsets import versions as versions_of
from treadle.frontends.onnx.reader import Source
from treadle.frontends.onnx.signature import check_types
from treadle.frontends.onnx.table import RULES
from treadle.frontends.onnx.tensors import sparse_to_array, to_array
from treadle.frontends.onnx.types import DTYPES, Symbols, need_tensor_type, tensor_type
from treadle.graph.graph import Graph
from treadle.graph.object_result import ObjectResult
from treadle.graph.value import Value

_FIRST_SCAN = 9
"""The operator set in which Scan lost its batches."""

_RULES = {"": RULES, "ai.onnx.ml": ML_RULES, "com.microsoft": MICROSOFT_RULES}


def import_model(source: Source) -> Graph:
    """The Graph of a parsed model.

    Graph inputs, outputs and nodes keep their names; nameless nodes are called `<op>_<index>`.
    Raises ModelError or UnsupportedModelError with every fault found, LimitError for models beyond
    the limits.
    """
    faults = Faults()
    try:
        functions = index(source.proto.functions)
    except Fault as fault:
        faults.add("functions", fault)
        faults.raise_all(source.title)
        raise
    check_model(source.proto, functions, source.external, faults, source.payloads)
    faults.raise_all(source.title)
    graph = _Importer(source, functions, faults, Graph(source.proto.graph.name or "model")).run()
    faults.raise_all(source.title)
    return graph


@dataclass(slots=True)
class _Scope:
    """The names that nodes may read, their operator versions, and the prefix of their own names."""

    env: MutableMapping[str, Binding]
    versions: Mapping[str, int]
    prefix: str = ""
    attributes: Mapping[str, onnx.AttributeProto] | None = None
    pending: dict[str, onnx.TensorProto | onnx.SparseTensorProto] = field(default_factory=dict)


class _Importer:
    def __init__(
        self,
        source: Source,
        functions: dict[tuple[str, str, str], onnx.FunctionProto],
        faults: Faults,
        graph: Graph,
        retries: Retries | None = None,
    ) -> None:
        self._source = source
        self._functions = functions
        self._faults = faults
        self._graph = graph
        self._retries = retries or Retries()
        self._known = Known()
        self._builder = Builder(self._graph, self._known)
        self._taken: set[Value] = set()
        self._payloads: dict[str, memoryview | None] = {}

    def run(self) -> Graph:
        proto = self._source.proto.graph
        scope = _Scope({}, versions_of(self._source.proto.opset_import))
        stored = _stored(proto)
        self._payloads = dict(zip((tensor.name for tensor in proto.initializer), self._source.payloads, strict=False))
        names = [value.name for value in proto.input if value.name not in stored]
        names += [*stored, *(name for node in proto.node for name in node.output if name)]
        for name in names:
            self._graph.unique_name(name)
        symbols = Symbols()
        self._inputs(proto, scope, stored, symbols)
        scope.pending = stored
        self._nodes(proto.node, scope, frozenset(value.name for value in proto.output))
        self._outputs(proto, scope, symbols)
        self._graph.files = list(self._source.external.files)
        return self._graph

    def _inputs(self, proto: onnx.GraphProto, scope: _Scope, stored: Mapping[str, object], symbols: Symbols) -> None:
        for entry in proto.input:
            if entry.name in stored:
                continue  # before IR version 4 every initialiser is listed as an input too
            try:
                value = Value(entry.name, need_tensor_type(entry.type), symbols.shape(entry.type))
            except Fault as fault:
                self._faults.add(f"input {entry.name!r}", fault)
                scope.env[entry.name] = None
                continue
            self._graph.inputs.append(value)
            self._taken.add(value)
            scope.env[entry.name] = value
        self._known.add_inputs(self._graph.inputs)

    def _outputs(self, proto: onnx.GraphProto, scope: _Scope, symbols: Symbols) -> None:
        objects: dict[str, Opaque] = {}
        for entry in proto.output:
            binding = self._look_up(entry.name, scope)
            if isinstance(binding, Opaque):
                objects[entry.name] = binding
            elif binding is not None:
                stated = tensor_type(entry.type)
                if None not in (stated, binding.dtype) and stated != binding.dtype:
                    self._faults.add(
                        f"output {entry.name!r}", f"the model states it as {stated}, but it is {binding.dtype}"
                    )
                if binding.shape is None and entry.type.HasField("tensor_type"):
                    binding.shape = symbols.shape(entry.type)
                self._graph.outputs.append(binding)
            elif not self._faults:
                self._faults.add(f"output {entry.name!r}", "it depends on an operand that a function call leaves out")

        made = {name: self._object_result(name, binding, scope) for name, binding in objects.items()}
        if made and not self._faults:
            self._graph.results = [made.get(entry.name) or entry.name for entry in proto.output]

    def _object_result(self, name: str, binding: Opaque, scope: _Scope) -> ObjectResult | None:
        """The Python object that `binding` stands for; the tensors that it is made from become outputs of the graph."""
        try:
            make = object_function(binding, scope.versions, self._functions)
        except Fault as fault:
            self._faults.add(f"output {name!r}", fault)
            return None
        self._builder.name = name
        reads = []
        for value in binding.reads.values():
            made = value if value.producer is not None else self._builder.add("identity", value)
            if made not in self._graph.outputs:
                self._graph.outputs.append(made)
            reads.append(made.name)
        return ObjectResult(name, type_text(binding.type), tuple(reads), make)

    def _look_up(self, name: str, scope: _Scope) -> Binding:
        tensor = scope.pending.pop(name, None)
        if tensor is not None:
            scope.env[name] = self._constant(name, tensor, scope)
        return scope.env.get(name)

    def _constant(self, name: str, tensor: onnx.TensorProto | onnx.SparseTensorProto, scope: _Scope) -> Binding:
        payload = None if scope.prefix else self._payloads.get(name)
        try:
            if isinstance(tensor, onnx.SparseTensorProto):
                data = sparse_to_array(tensor, self._source.external)
            elif tensor.data_type not in DTYPES:
                if payload is not None:
                    tensor.raw_data = bytes(payload)
                return opaque_tensor(name, tensor)
            else:
                data = to_array(tensor, self._source.external, payload)
        except Fault as fault:
            self._faults.add(f"initialiser {name!r}", fault)
            return None
        value = Value.constant(name if not scope.prefix else self._graph.unique_name(scope.prefix + name), data)
        self._taken.add(value)
        return value

    def _nodes(self, nodes: Sequence[onnx.NodeProto], scope: _Scope, outputs: frozenset[str] = frozenset()) -> None:
        """Translate `nodes`; those that `outputs` names get values of exactly these names."""
        for position in execution_order(nodes, scope.env):
            proto = nodes[position]
            if scope.attributes is not None:
                proto = resolved(proto, scope.attributes)
            name = scope.prefix + node_name(proto, position)
            for read in reads(proto):
                self._look_up(read, scope)
            first = len(self._graph.nodes)
            results = self._node(proto, name, scope, outputs)
            cap_workers(proto, name, self._graph.nodes[first:])
            scope.env.update((output, value) for output, value in zip(proto.output, results, strict=False) if output)

    def _named(self, name: str, binding: Binding, scope: _Scope, *, exact: bool, node: str) -> Binding:
        """`binding` under the name it has in the model; a new value if a graph output would else be an alias."""
        if not isinstance(binding, Value):
            return binding
        if binding in self._taken:
            if not exact:
                return binding
            self._builder.name = node
            binding = self._builder.add("identity", binding)
        self._taken.add(binding)
        binding.name = name if not scope.prefix else self._graph.unique_name(scope.prefix + name)
        return binding

    def _node(self, proto: onnx.NodeProto, name: str, scope: _Scope, exact: frozenset[str]) -> Sequence[Binding]:
        nothing: list[Binding] = [None] * len(proto.output)
        if any(scope.env.get(read) is None for read in reads(proto)):
            return nothing  # it reads the result of a faulty node, whose fault is recorded
        self._builder.name = name
        before = len(self._graph.nodes)
        try:
            results = self._translated(proto, name, scope)
            return [
                self._named(output, binding, scope, exact=output in exact, node=name) if output else None
                for output, binding in zip(proto.output, results, strict=False)
            ]
        except Fault as fault:
            del self._graph.nodes[before:]
            self._faults.add(place(proto, name), fault)
            return nothing

    def _translated(self, proto: onnx.NodeProto, name: str, scope: _Scope) -> Sequence[Binding]:
        function = self._functions.get(key_of(proto))
        if function is not None:
            return self._called(function, proto, name, scope)
        domain = domain_of(proto.domain)
        version = scope.versions[domain]
        if not reads_opaque(proto.input, scope.env):
            inputs = [_value(scope.env[read]) if read else None for read in proto.input]
            found = signature(domain, proto.op_type, version)
            assert found is not None, "the check has found every operator's signature"
            check_types(found, inputs)
            node = OnnxNode(proto, name, version, inputs, self._known)
            if domain == "" and proto.op_type == "If":
                condition = node.array(0)
                if condition is not None and condition.size == 1:
                    return self._inlined(proto, name, scope, taken=bool(condition.reshape(-1)[0]))
                branched = self._branch(proto, name, scope)
                if branched is not None:
                    return branched
            if domain == "" and (proto.op_type == "Loop" or (proto.op_type == "Scan" and version >= _FIRST_SCAN)):
                looped = self._loop(proto, name, scope, inputs)
                if looped is not None:
                    return looped
            rule = _RULES.get(domain, {}).get(proto.op_type)
            results = None if rule is None else rule(node, self._builder)
            if results is not None:
                return [results] if isinstance(results, Value) else results
        return add_call(proto, scope.env, scope.versions, self._functions, self._builder)

    def _called(
        self, function: onnx.FunctionProto, proto: onnx.NodeProto, name: str, scope: _Scope
    ) -> Sequence[Binding]:
        """The results of a model-local function, its body expanded in place."""
        given = [self._look_up(read, scope) if read else None for read in proto.input]
        env: dict[str, Binding] = dict(zip(function.input, given, strict=False))
        absent = {formal for formal, read in zip(function.input, proto.input, strict=False) if not read}
        absent.update(function.input[len(proto.input) :])
        body = [_without(node, absent) for node in function.node] if absent else list(function.node)
        inner = _Scope(env, versions_of(function.opset_import), f"{name}/", attributes_of(function, proto))
        self._nodes(body, inner)
        return [inner.env[output] for output in function.output[: len(proto.output)]]

    def _inlined(self, proto: onnx.NodeProto, name: str, scope: _Scope, *, taken: bool) -> Sequence[Binding]:
        """The results of an If whose condition is known: the branch taken, in place."""
        wanted = "then_branch" if taken else "else_branch"
        (graph,) = (attribute.g for attribute in proto.attribute if attribute.name == wanted)
        inner = _Scope(ChainMap({}, scope.env), scope.versions, f"{name}/", None, _stored(graph))
        self._nodes(graph.node, inner)
        return [self._look_up(value.name, inner) for value in graph.output]

    def _branch(self, proto: onnx.NodeProto, name: str, scope: _Scope) -> Sequence[Binding] | None:
        """The results of an If with both branches as bodies; None if they cannot be graphs of core nodes."""
        outside = self._outside(proto, scope)
        if outside is None:
            return None
        graphs = {attribute.name: attribute.g for attribute in proto.attribute}
        bodies = [self._body(graphs[branch], name, scope, outside) for branch in ("then_branch", "else_branch")]
        yes, no = (None if body is None else body.graph for body in bodies)
        if yes is None or no is None or [v.dtype for v in yes.outputs] != [v.dtype for v in no.outputs]:
            return None
        operands = [value for value in outside.values() if self._known.array(value) is None]
        self._builder.name = name
        return self._builder.add_branch(_value(scope.env[proto.input[0]]), operands, yes, no)

    def _loop(
        self, proto: onnx.NodeProto, name: str, scope: _Scope, inputs: Sequence[Value | None]
    ) -> Sequence[Binding] | None:
        """The results of a Loop or Scan as a core loop; None if its body cannot be a graph of core nodes."""
        outside = self._outside(proto, scope)
        before = len(self._graph.nodes)
        is_loop = proto.op_type == "Loop"
        node = (loop_node if is_loop else scan_node)(proto, inputs, self._builder)
        results = None
        if outside is not None and node is not None:
            captured = [value for value in outside.values() if self._known.array(value) is None]
            results = add_loop(
                node, partial(self._loop_body, proto, name, scope, outside), captured, self._retries, self._builder
            )
        if results is not None and not is_loop:
            results = scan_results(proto, results, self._builder)
        if results is None:
            del self._graph.nodes[before:]
            self._builder.name = name
        return results and results[: len(proto.output)]

    def _loop_body(
        self, proto: onnx.NodeProto, name: str, scope: _Scope, outside: Mapping[str, Value], formals: Sequence[Formal]
    ) -> Imported | None:
        (graph,) = (attribute.g for attribute in proto.attribute if attribute.name == "body")
        going = graph.input[1].name if proto.op_type == "Loop" else ""
        return self._body(graph, name, scope, outside, formals, going, decides=proto.op_type == "Loop")

    def _outside(self, proto: onnx.NodeProto, scope: _Scope) -> dict[str, Value] | None:
        """The values that a node's bodies read from outside, by name; None if one is no tensor of a known dtype."""
        outside: dict[str, Value] = {}
        for read in captured(proto):
            binding = scope.env[read]
            if not isinstance(binding, Value) or binding.dtype is None:
                return None
            outside[read] = binding
        return outside

    def _body(
        self,
        proto: onnx.GraphProto,
        name: str,
        scope: _Scope,
        outside: Mapping[str, Value],
        formals: Sequence[Formal] = (),
        going: str = "",
        *,
        decides: bool = True,
    ) -> Imported | None:
        """The body `proto` of node `name` as a graph with inputs for `formals` and values `outside` that are not known.

        `going` is the name of the input that says that the loop goes on. A body that does not decide whether there is
        another iteration gets an output that says there is one. None if the body has a fault, or gives what is no
        tensor of a known dtype.
        """
        graph = Graph(name)
        env: dict[str, Binding] = {}
        for formal in formals:
            made = Value(graph.unique_name(formal.name), formal.dtype, formal.shape)
            graph.inputs.append(made)
            env[formal.name] = made
        if going:
            env[going] = graph.constant(np.array(True), going)
        for read, value in outside.items():
            array = self._known.array(value)
            if array is None:
                made = Value(graph.unique_name(read), value.dtype, self._known.shape(value, read))
                graph.inputs.append(made)
                env[read] = made
            else:
                env[read] = graph.constant(array, read)
        inner = _Importer(self._source, self._functions, Faults(), graph, self._retries)
        found = inner.body(proto, _Scope(env, scope.versions, f"{name}/", None, _stored(proto)))
        if found is not None and not decides:
            graph.outputs.insert(0, graph.constant(np.array(True), "again"))
            return Imported(graph, [(), *found.dims])
        return found

    def body(self, proto: onnx.GraphProto, scope: _Scope) -> Imported | None:
        """The graph of a body whose operands are in the scope; None if it cannot be a graph of core nodes.

        An output whose elements are known is a constant.
        """
        self._taken.update(value for value in scope.env.values() if isinstance(value, Value))
        self._known.add_inputs(self._graph.inputs)
        self._nodes(proto.node, scope)
        outputs = [self._look_up(value.name, scope) for value in proto.output]
        values = [value for value in outputs if isinstance(value, Value) and value.dtype is not None]
        if self._faults or len(values) < len(outputs):
            return None
        dims = [self._known.dims(value) for value in values]
        for value in values:
            known = self._known.array(value)
            self._graph.outputs.append(value if known is None else self._graph.constant(known, value.name))
        return Imported(self._graph, dims)


def _value(binding: Binding) -> Value:
    assert isinstance(binding, Value)
    return binding


def _stored(graph: onnx.GraphProto) -> dict[str, onnx.TensorProto | onnx.SparseTensorProto]:
    stored: dict[str, onnx.TensorProto | onnx.SparseTensorProto] = {t.name: t for t in graph.initializer}
    stored.update({sparse.values.name: sparse for sparse in graph.sparse_initializer})
    return stored


def _without(node: onnx.NodeProto, absent: set[str]) -> onnx.NodeProto:
    """`node` with operands named in `absent` left out."""
    if not absent.intersection(node.input):
        return node
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    names = ["" if name in absent else name for name in node.input]
    del copy.input[:]
    copy.input.extend(names)
    return copy
