"""From a parsed ONNX model to a Graph: walks the nodes in order and lets each one's rule build core nodes."""

from collections import ChainMap
from collections.abc import Mapping, Sequence

import numpy as np
import onnx

from treadle import dtypes
from treadle.dtypes import DType
from treadle.frontends.faults import Fault, Faults
from treadle.frontends.onnx.caps import cap_workers
from treadle.frontends.onnx.check import check_model
from treadle.frontends.onnx.control import BodyForm, ControlFlow
from treadle.frontends.onnx.describe import type_text
from treadle.frontends.onnx.foreign import (
    Binding,
    Opaque,
    add_call,
    bytes_of,
    is_empty_optional,
    object_function,
    opaque_list,
    opaque_tensor,
    reads_opaque,
    stored_tensor,
)
from treadle.frontends.onnx.from_bytes import numbers_of_bytes
from treadle.frontends.onnx.functions import attributes_of, index, key_of, resolved
from treadle.frontends.onnx.import_options import DEFAULTS, ImportOptions
from treadle.frontends.onnx.lists import TensorList, of_stack, stack_of
from treadle.frontends.onnx.loops import Imported, Retries
from treadle.frontends.onnx.microsoft import DOMAIN as MICROSOFT
from treadle.frontends.onnx.microsoft_table import RULES as MICROSOFT_RULES
from treadle.frontends.onnx.microsoft_table import SEARCHES
from treadle.frontends.onnx.ml_table import RULES as ML_RULES
from treadle.frontends.onnx.names import execution_order, node_name, place, reads
from treadle.frontends.onnx.node import OnnxNode
from treadle.frontends.onnx.object_inputs import Kind, kinds_of, object_input
from treadle.frontends.onnx.opsets import domain_of, signature
from treadle.frontends.onnx.opsets import versions as versions_of
from treadle.frontends.onnx.reader import Source
from treadle.frontends.onnx.rules.flex_attention import DOMAIN as FLEX
from treadle.frontends.onnx.rules.sequence import MAKERS, SequenceNode
from treadle.frontends.onnx.rules.sequence import RULES as SEQUENCE_RULES
from treadle.frontends.onnx.scope import Scope, stored, values_by_name
from treadle.frontends.onnx.signature import check_types
from treadle.frontends.onnx.table import RULES
from treadle.frontends.onnx.tensors import sparse_to_array, to_array
from treadle.frontends.onnx.types import DTYPES, FEW_BITS, Symbols, need_tensor_type, tensor_type
from treadle.graph.formed_model import FormedModel, InputForm, ObjectInput
from treadle.graph.graph import Graph
from treadle.graph.object_result import ObjectResult
from treadle.graph.shape import Shape
from treadle.graph.value import Value

_FIRST_SCAN = 9
"""The operator set in which Scan lost its batches."""

RULES_OF = {"": RULES, "ai.onnx.ml": ML_RULES, "com.microsoft": MICROSOFT_RULES}


def import_model(source: Source, options: ImportOptions = DEFAULTS) -> Graph | FormedModel:
    """The Graph of a parsed model; if inputs are no tensors, what makes one for each form of these.

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
    proto = source.proto.graph
    kinds = kinds_of(proto, faults)
    faults.raise_all(source.title)

    def build(forms: Sequence[InputForm]) -> Graph:
        found = Faults()
        graph = Graph(proto.name or "model")
        _Importer(source, functions, found, graph, options).run(dict(zip(kinds, forms, strict=True)), kinds)
        found.raise_all(source.title)
        return graph

    if not kinds:
        return build(())
    symbols, initial = Symbols(is_shared=options.strict_dims), stored(proto)
    inputs: list[Value | ObjectInput] = []
    for entry in proto.input:
        if entry.name in kinds:
            inputs.append(object_input(entry.name, kinds[entry.name]))
        elif entry.name not in initial:
            try:
                need_tensor_type(entry.type)
            except Fault as fault:
                faults.add(f"input {entry.name!r}", fault)
            inputs.append(_declared(entry, symbols))
    faults.raise_all(source.title)
    outputs = [
        (entry.name, type_text(entry.type)) if tensor_type(entry.type) is None else _declared(entry, symbols)
        for entry in proto.output
    ]
    return FormedModel(proto.name or "model", tuple(inputs), tuple(outputs), build)


def _declared(entry: onnx.ValueInfoProto, symbols: Symbols) -> Value:
    """A value of the type and shape that `entry` states."""
    return Value(entry.name, tensor_type(entry.type), symbols.shape(entry.type))


class _Importer(ControlFlow):
    def __init__(
        self,
        source: Source,
        functions: dict[tuple[str, str, str], onnx.FunctionProto],
        faults: Faults,
        graph: Graph,
        options: ImportOptions,
        retries: Retries | None = None,
    ) -> None:
        super().__init__(graph, retries or Retries())
        self._options = options
        self._builder.round_low_bits = options.round_low_bits
        self._source = source
        self._functions = functions
        self._faults = faults
        self._taken: set[Value] = set()
        self._payloads: dict[str, memoryview | None] = {}

    def run(self, forms: Mapping[str, InputForm], kinds: Mapping[str, Kind]) -> Graph:
        """The graph, whose inputs of these `kinds` have these `forms`."""
        proto = self._source.proto.graph
        scope = Scope({}, versions_of(self._source.proto.opset_import))
        initial = stored(proto)
        self._payloads = dict(zip((tensor.name for tensor in proto.initializer), self._source.payloads, strict=False))
        names = [value.name for value in proto.input if value.name not in initial]
        names += [*initial, *(name for node in proto.node for name in node.output if name)]
        for name in names:
            self._graph.unique_name(name)
        symbols = Symbols(is_shared=self._options.strict_dims)
        self._inputs(proto, scope, initial, symbols, forms, kinds)
        scope.pending = initial
        self._nodes(proto.node, scope, frozenset(value.name for value in proto.output))
        self._outputs(proto, scope, symbols)
        self._graph.drop_unread(self._builder.spare.__contains__)
        self._graph.files = list(self._source.external.files)
        return self._graph

    def _inputs(
        self,
        proto: onnx.GraphProto,
        scope: Scope,
        initial: Mapping[str, object],
        symbols: Symbols,
        forms: Mapping[str, InputForm],
        kinds: Mapping[str, Kind],
    ) -> None:
        def declare(name: str, dtype: DType, shape: Shape | None) -> Value:
            value = Value(name, dtype, shape)
            self._graph.inputs.append(value)
            self._taken.add(value)
            return value

        def declare_part(name: str, dtype: DType, shape: Shape | None) -> Value:
            return declare(name if name in kinds else self._graph.unique_name(name), dtype, symbols.unnamed(shape))

        for entry in proto.input:
            name = entry.name
            if name in kinds:
                scope.env[name] = kinds[name].bind(forms[name], name, declare_part)
            elif name not in initial:
                try:
                    scope.env[name] = declare(name, need_tensor_type(entry.type), symbols.shape(entry.type))
                except Fault as fault:
                    self._faults.add(f"input {name!r}", fault)
                    scope.env[name] = None
        self._known.add_inputs(self._graph.inputs)

    def _outputs(self, proto: onnx.GraphProto, scope: Scope, symbols: Symbols) -> None:
        objects: dict[str, Opaque] = {}
        for entry in proto.output:
            binding = self._look_up(entry.name, scope)
            if isinstance(binding, TensorList):
                binding = opaque_list(entry.name, binding)
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

    def _object_result(self, name: str, binding: Opaque, scope: Scope) -> ObjectResult | None:
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

    def _look_up(self, name: str, scope: Scope) -> Binding:
        tensor = scope.pending.pop(name, None)
        if tensor is not None:
            scope.env[name] = self._constant(name, tensor, scope)
        return scope.env.get(name)

    def _constant(self, name: str, tensor: onnx.TensorProto | onnx.SparseTensorProto, scope: Scope) -> Binding:
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

    def _nodes(self, nodes: Sequence[onnx.NodeProto], scope: Scope, outputs: frozenset[str] = frozenset()) -> None:
        """Translate `nodes`; those that `outputs` names get values of exactly these names."""
        for position in execution_order(nodes, scope.env):
            proto = nodes[position]
            if scope.attributes is not None:
                proto = resolved(proto, scope.attributes)
            name = scope.prefix + node_name(proto, position)
            bindings = [self._look_up(read, scope) for read in reads(proto)]
            first = len(self._graph.nodes)
            if None in bindings:  # it reads the result of a faulty node, whose fault is recorded
                results: Sequence[Binding] = [None] * len(proto.output)
            else:
                results = self._node(proto, name, scope, outputs)
            cap_workers(proto, name, self._graph.nodes[first:])
            scope.env.update((output, value) for output, value in zip(proto.output, results, strict=False) if output)

    def _named(self, name: str, binding: Binding, scope: Scope, *, exact: bool, node: str) -> Binding:
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

    def _node(self, proto: onnx.NodeProto, name: str, scope: Scope, exact: frozenset[str]) -> Sequence[Binding]:
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
            return [None] * len(proto.output)

    def _translated(self, proto: onnx.NodeProto, name: str, scope: Scope) -> Sequence[Binding]:
        function = self._functions.get(key_of(proto))
        if function is not None:
            return self._called(function, proto, name, scope)
        if domain_of(proto.domain) == MICROSOFT and proto.op_type in SEARCHES:
            nodes, names = SEARCHES[proto.op_type](proto, name, scope.versions[""])
            inner = Scope(ChainMap({}, scope.env), scope.versions, scope.prefix)
            self._nodes(nodes, inner)
            return [self._look_up(each, inner) for each in names]
        before = len(self._graph.nodes)
        if proto.op_type == "Identity" and isinstance(same := scope.env.get(proto.input[0]), Opaque):
            return [same]
        if proto.op_type == "OptionalHasElement" and is_empty_optional(scope.env.get(next(iter(proto.input), ""))):
            return [self._builder.constant(np.asarray(False))]
        env = self._with_bytes(proto, scope.env)
        results = None if reads_opaque(proto.input, env) else self._expressed(proto, name, scope, env)
        if results is None:
            del self._graph.nodes[before:]
            self._builder.name = name
            return add_call(proto, scope.env, scope.versions, self._functions, self._builder)
        return results

    def _expressed(
        self, proto: onnx.NodeProto, name: str, scope: Scope, env: Mapping[str, Binding]
    ) -> Sequence[Binding] | None:
        """The results of a node as core nodes; None if these cannot express it, also after some were added.

        The node's operands are looked up in `env`.
        """
        domain = domain_of(proto.domain)
        version = scope.versions[domain]
        bindings = [env[read] if read else None for read in proto.input]
        inputs = [binding if isinstance(binding, Value) else None for binding in bindings]
        found = signature(domain, proto.op_type, version)
        assert found is not None, "the check has found every operator's signature"
        check_types(found, inputs)
        node = OnnxNode(proto, name, version, inputs, self._known)
        lists = {number: each for number, each in enumerate(bindings) if isinstance(each, TensorList)}
        if lists or (domain == "" and node.op in MAKERS):
            return self._listed(node, lists, name, scope) if domain == "" else None
        if domain == FLEX and node.op == "FlexAttention":
            return self._modified_attention(node, name, scope)
        controlled = self._controlled(node, name, scope) if domain == "" else None
        if controlled is not None:
            return controlled
        rule = RULES_OF.get(domain, {}).get(node.op)
        results = None if rule is None else rule(node, self._builder)
        return [results] if isinstance(results, Value) else results

    def _controlled(self, node: OnnxNode, name: str, scope: Scope) -> Sequence[Binding] | None:
        """The results of a branch or loop of tensors; None if the node is another, or core nodes cannot express it."""
        if node.op == "If":
            condition = node.array(0)
            if condition is not None and condition.size == 1:
                return self._inlined(node.proto, name, scope, taken=bool(condition.reshape(-1)[0]))
            return self._branch(node.proto, name, scope)
        if node.op == "Loop" or (node.op == "Scan" and node.version >= _FIRST_SCAN):
            return self._loop(node.proto, name, scope, node.inputs)
        return None

    def _listed(
        self, node: OnnxNode, lists: dict[int, TensorList], name: str, scope: Scope
    ) -> Sequence[Binding] | None:
        """The results of a node that reads or gives lists of tensors; None if core nodes cannot express it."""
        if node.op == "Loop":
            return self._list_loop(node.proto, name, scope, lists)
        if node.op == "SequenceMap":
            return self._mapped(node.proto, name, scope, lists)
        rule = SEQUENCE_RULES.get(node.op)
        result = None if rule is None else rule(SequenceNode(node, lists), self._builder)
        return None if result is None else [result]

    def _with_bytes(self, proto: onnx.NodeProto, env: Mapping[str, Binding]) -> Mapping[str, Binding]:
        """`env`, in which tensors without a core value that a DequantizeLinear or Cast reads become numbers.

        Integers of 2 or 4 bits become i8 or u8. Floats of 4 or 8 bits that a Cast reads become f32.
        """
        if proto.op_type not in ("DequantizeLinear", "Cast") or not reads_opaque(proto.input, env):
            return env
        found: dict[str, Binding] = {}
        for name in filter(None, proto.input):
            tensor, given = stored_tensor(env[name]), bytes_of(env[name])
            if given is not None and given[0] in FEW_BITS:
                found[name] = given[1]
            elif given is not None and proto.op_type == "Cast":
                table = self._builder.constant(numbers_of_bytes(given[0]))
                found[name] = self._builder.add(
                    "gather", table, self._builder.add("cast", given[1], to=dtypes.i32), axis=0
                )
            elif tensor is not None and tensor.data_type in FEW_BITS and proto.op_type == "DequantizeLinear":
                bits, dtype = FEW_BITS[tensor.data_type]
                numbers = to_array(tensor, self._source.external).astype(dtype.numpy)
                found[name] = value = Value.constant(self._graph.unique_name(f"{name}.bytes"), numbers)
                self._builder.few_bits[value] = bits
        return {**env, **found}

    def _called(
        self, function: onnx.FunctionProto, proto: onnx.NodeProto, name: str, scope: Scope
    ) -> Sequence[Binding]:
        """The results of a model-local function, its body expanded in place."""
        given = [self._look_up(read, scope) if read else None for read in proto.input]
        env: dict[str, Binding] = dict(zip(function.input, given, strict=False))
        absent = {formal for formal, read in zip(function.input, proto.input, strict=False) if not read}
        absent.update(function.input[len(proto.input) :])
        body = [_without(node, absent) for node in function.node] if absent else list(function.node)
        inner = Scope(env, versions_of(function.opset_import), f"{name}/", attributes_of(function, proto))
        self._nodes(body, inner)
        return [inner.env[output] for output in function.output[: len(proto.output)]]

    def _body(
        self,
        proto: onnx.GraphProto,
        name: str,
        scope: Scope,
        form: BodyForm,
        faults: Faults | None = None,
    ) -> Imported | None:
        """The body `proto` of node `name` as a graph. Its inputs are the formals, then the values from outside that are
        not known.

        Lists that a loop's body gives are one stacked value each. None if the body has a fault, or a result that is no
        tensor or list of a known dtype.
        """
        graph = Graph(name)
        env: dict[str, Binding] = {}
        for formal in form.formals:
            made = Value(graph.unique_name(formal.name), formal.dtype, formal.shape)
            graph.inputs.append(made)
            env[formal.name] = of_stack(made) if formal.name in form.stacks else made
        if form.going:
            env[form.going] = graph.constant(np.array(True), form.going)
        inside: list[Value] = []
        for read, value in values_by_name(form.outside):
            array = self._known.array(value)
            if array is None:
                made = Value(graph.unique_name(read), value.dtype, self._known.named_dims(value))
                graph.inputs.append(made)
                inside.append(made)
            else:
                inside.append(graph.constant(array, read))
        made_of = iter(inside)
        for read, binding in form.outside.items():
            if isinstance(binding, TensorList):
                env[read] = binding.with_values([next(made_of) for _ in binding.values])
            else:
                env[read] = next(made_of)
        faults = Faults() if faults is None else faults
        inner = _Importer(self._source, self._functions, faults, graph, self._options, self._retries)
        own = Scope(env, scope.versions, f"{name}/", None, stored(proto))
        found = inner.body(proto, own, stacked=bool(form.formals))
        if found is not None and not form.decides:
            graph.outputs.insert(0, graph.constant(np.array(True), "again"))
            return Imported(graph, [(), *found.dims], [frozenset(), *found.symbols], [None, *found.lists])
        return found

    def body(self, proto: onnx.GraphProto, scope: Scope, *, stacked: bool) -> Imported | None:
        """The graph of a body whose operands are in the scope; None if it cannot be a graph of core nodes.

        An output whose elements are known is a constant. A list is an output for each of its values, or one output if
        it must be `stacked`.
        """
        self._taken.update(value for value in scope.env.values() if isinstance(value, Value))
        self._known.add_inputs(self._graph.inputs)
        self._nodes(proto.node, scope)
        outputs = [self._look_up(value.name, scope) for value in proto.output]
        values: list[Value] = []
        lists: list[TensorList | None] = []
        for binding in outputs:
            if isinstance(binding, TensorList):
                stack = stack_of(binding, self._builder) if stacked else None
                if stacked and stack is None:
                    return None
                values += binding.values if stack is None else (stack,)
                lists.append(binding)
            elif isinstance(binding, Value) and binding.dtype is not None:
                values.append(binding)
                lists.append(None)
        if self._faults or len(lists) < len(outputs):
            return None
        dims = [self._known.named_dims(value) for value in values]
        symbols = [self._known.symbols(value) for value in values]
        for value in values:
            known = self._known.array(value)
            self._graph.outputs.append(value if known is None else self._graph.constant(known, value.name))
        self._graph.drop_unread(self._builder.spare.__contains__)
        return Imported(self._graph, dims, symbols, lists)


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
