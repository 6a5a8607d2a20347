"""Import of parsed GraphDefs: chooses inputs and outputs, and builds what a session runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from treadle.frontends.faults import Fault, Faults, Unsupported
from treadle.frontends.tensorflow.body import Body, Library, graph_body, needed, sorted_nodes
from treadle.frontends.tensorflow.checkpoint import Checkpoint
from treadle.frontends.tensorflow.control_nodes import prepared, prepared_function
from treadle.frontends.tensorflow.declared import declared_dtype
from treadle.frontends.tensorflow.describe import Describer
from treadle.frontends.tensorflow.frames import FRAME, frame_parts
from treadle.frontends.tensorflow.node import Node, Ref, tensor_ref
from treadle.frontends.tensorflow.nodes import NODES, STRUCTURE
from treadle.frontends.tensorflow.outlook import Outlook
from treadle.frontends.tensorflow.saved_model import SavedGraph
from treadle.frontends.tensorflow.switches import SIDES, branch_parts
from treadle.frontends.tensorflow.translate import WITHOUT_RESULTS, Translation
from treadle.frontends.tensorflow.variables import HANDLES, check_no_assignments, with_values
from treadle.graph.dim import is_expression
from treadle.graph.graph import Graph
from treadle.graph.shape import Dim, Shape, is_static
from treadle.graph.template import Form, Template
from treadle.graph.value import Value

PLACEHOLDERS = ("Placeholder", "PlaceholderV2")
VARIABLES = (*HANDLES, "AssignVariableOp", "Assign", "RestoreV2")
TABLES = ("HashTable", "HashTableV2", "LookupTableFind", "LookupTableFindV2", "MutableHashTableV2")
TABLE = "treadle has no tables of keys and values; look keys up before the model"
FOLDER = "the graph holds variables and not their values; save it as a SavedModel, and load that folder"


def import_graph(
    message: Any, title: str, inputs: Sequence[str] | None = None, outputs: Sequence[str] | None = None
) -> Graph | Template:
    """Return what a session runs of a GraphDef: a Graph if all inputs have fixed shapes, else a Template.

    `inputs` and `outputs` name tensors as TensorFlow does ("name", "name:1"). By default the inputs are the
    placeholders that the outputs depend on, and the outputs are the tensors that no node reads. Raises ModelError or
    UnsupportedModelError with all faults.
    """
    faults = Faults()
    model = _Model(message, title, faults)
    faults.raise_all(title)
    try:
        model.choose(inputs, outputs)
    except Fault as fault:
        faults.add("the graph", fault)
    return _finished(model, title, faults)


def import_saved(saved: SavedGraph) -> Graph | Template:
    """Return what a session runs of a signature of a SavedModel, as import_graph(). Raises as that."""
    faults = Faults()
    model = _Model(saved.graph, saved.title, faults)
    faults.raise_all(saved.title)
    try:
        model.choose_signature(saved)
    except Fault as fault:
        faults.add("the graph", fault)
    return _finished(model, saved.title, faults)


def _finished(model: _Model, title: str, faults: Faults) -> Graph | Template:
    faults.raise_all(title)
    if all(value.shape is not None and is_static(value.shape) for value in model.inputs):
        return model.build([(value.known_dtype, value.static_shape) for value in model.inputs])
    try:
        described = model.described()
    except Fault as fault:
        faults.add("the outputs", fault)
        faults.raise_all(title)
        raise
    return Template("tensorflow", tuple(model.inputs), tuple(described), model.build, builds_open=True)


class _Model:
    def __init__(self, message: Any, title: str, faults: Faults) -> None:
        self._title = title
        self._faults = faults
        self._library = Library(message.library.function)
        self.inputs: list[Value] = []
        self._given: list[Ref] = []
        self._names: list[str] = []
        self._wanted: list[Ref] = []
        self._body = Body({})
        body = graph_body(message.node, faults)
        if not faults:
            try:
                self._body = prepared(body, self._library)
            except Fault as fault:
                faults.add("the graph", fault)
        self._whole = body
        self._places = {name: place for place, name in enumerate(body.nodes)}

    def choose(self, inputs: Sequence[str] | None, outputs: Sequence[str] | None) -> None:
        """Choose inputs and outputs, and report the faults of the nodes between. Raises Fault for impossible names."""
        names = self._terminals() if outputs is None else list(outputs)
        given = {} if inputs is None else {self._resolve(name, "inputs="): name for name in inputs}
        self._names, self._wanted = names, [self._resolve(name, "outputs=") for name in names]
        if not names and outputs is not None:
            raise Fault("outputs= names no tensor; leave it out for what no node reads")
        if not names:
            raise Fault("every node is read by another, so none is an output; say which with outputs=[...]")
        if len(set(names)) != len(names) or len(given) != len(inputs or given):
            raise Fault("inputs= and outputs= must name each tensor once")
        nodes = needed(self._body, self._wanted, given)
        if inputs is None:
            given = {(node.name, 0): node.name for node in nodes if node.op in PLACEHOLDERS}
        unread = [name for ref, name in given.items() if inputs is not None and not self._reads(ref, nodes)]
        if unread:
            raise Fault(f"no output depends on the input {', '.join(map(repr, unread))}")
        places = list(given.items())
        if inputs is None:
            places.sort(key=lambda item: self._places.get(item[0][0], 0))
        self._accept(dict(places), nodes)

    def choose_signature(self, saved: SavedGraph) -> None:
        """Choose inputs and outputs of a signature, and put values in place of variables. Raises Fault as choose()."""
        self._names = list(saved.outputs)
        raw = [tensor_ref(name) for name in saved.outputs.values()]
        self._wanted = [self._resolve(name, f"output {key!r}") for key, name in saved.outputs.items()]
        given = {self._resolve(name, f"input {key!r}"): key for key, name in saved.inputs.items()}
        if not self._names:
            raise Fault("the signature has no outputs")
        if len(given) != len(saved.inputs):
            raise Fault("two inputs of the signature are one tensor")
        nodes = needed(self._body, self._wanted, given)
        check_no_assignments(self._whole, raw, self._library, self._faults)
        if any(node.op in HANDLES for node in nodes):
            checkpoint = Checkpoint(saved.checkpoint)
            self._body.nodes.update(with_values(self._body, nodes, checkpoint.array, self._faults))
            nodes = [self._body.nodes[node.name] for node in nodes]
        # variables without values are faults already
        self._accept(given, [node for node in nodes if node.op not in HANDLES])

    def _accept(self, given: dict[Ref, str], nodes: list[Node]) -> None:
        """Make `given` the inputs, by their names, and report the faults of `nodes`, which outputs depend on."""
        self._given = list(given)
        symbols = _Symbols()
        for ref, name in given.items():
            self._input(ref, name, symbols)
        nodes.sort(key=lambda node: self._places.get(node.name, len(self._places)))
        self._check([node for node in nodes if (node.name, 0) not in given or node.op not in PLACEHOLDERS])
        if not self._faults:
            sorted_nodes(nodes, given)

    def _reads(self, ref: Ref, nodes: Sequence[Node]) -> bool:
        return ref in self._wanted or any(ref in node.inputs for node in nodes)

    def _input(self, ref: Ref, name: str, symbols: _Symbols) -> None:
        node = self._body.nodes[ref[0]]
        try:
            dtype = declared_dtype(node, ref[1])
            shape = node.attr("shape") if node.op in (*PLACEHOLDERS, "PlaceholderWithDefault") else None
        except Fault as fault:
            self._faults.add(f"input {name!r}", fault)
            return
        self.inputs.append(Value(name, dtype, symbols.shape(shape)))

    def _resolve(self, name: str, source: str) -> Ref:
        """Return the tensor that a user calls `name`. Raises Fault if there is none."""
        ref = tensor_ref(str(name))
        if ref[0] not in self._whole.nodes:
            import difflib

            close = difflib.get_close_matches(ref[0], self._whole.nodes, 3)
            advice = f"did you mean {' or '.join(close)}?" if close else f"it ends with {list(self._whole.nodes)[-1]!r}"
            raise Fault(f"{source} names {name!r}, which the graph does not have; {advice}")
        return self._body.resolved(ref)

    def _terminals(self) -> list[str]:
        """Return the names of the nodes that no node reads, in the order of the file."""
        read = {name for node in self._whole.nodes.values() for name, _ in node.inputs}
        read.update(name for node in self._whole.nodes.values() for name in node.controls)
        silent = (*WITHOUT_RESULTS, *PLACEHOLDERS, "Const")
        return [node.name for node in self._whole.nodes.values() if node.name not in read and node.op not in silent]

    def _check(self, nodes: Sequence[Node]) -> None:
        """Report each unsupported op, with its nodes."""
        unknown: dict[str, list[str]] = {}
        for node in [*nodes, *self._nested_nodes(nodes)]:
            if node.op not in NODES and node.op not in STRUCTURE and node.op not in (SIDES, FRAME, "_Arg"):
                unknown.setdefault(node.op, []).append(node.name)
        for op, found in unknown.items():
            advice = FOLDER if op in VARIABLES else TABLE if op in TABLES else "treadle does not have this op"
            more = f" and {len(found) - 8} more" if len(found) > 8 else ""
            self._faults.add(f"op {op} (nodes {', '.join(map(repr, found[:8]))}{more})", Unsupported(advice))

    def _nested_nodes(self, nodes: Sequence[Node]) -> list[Node]:
        """Return the nodes inside the branches and loops of `nodes`, at any depth."""
        found: list[Node] = []
        visited: set[str] = set()
        pending = [(node, self._body) for node in nodes]
        while pending:
            node, parent = pending.pop()
            try:
                for body, wanted, given in self._parts(node, parent, visited):
                    inner = needed(body, wanted, given)
                    found.extend(inner)
                    pending.extend((other, body) for other in inner)
            except Fault as fault:
                self._faults.add(node.place, fault)
        return found

    def _parts(self, node: Node, parent: Body, visited: set[str]) -> list[tuple[Body, list[Ref], dict[Ref, None]]]:
        """Return the parts that a branch or loop runs: body, results, operands. Functions in `visited` are skipped."""
        if node.op == FRAME:
            return [(parent, wanted, given) for wanted, given in frame_parts(node)]
        if node.op == SIDES:
            return [(parent, wanted, given) for wanted, given in branch_parts(node)]
        names = ("then_branch", "else_branch", "cond", "body") if node.op in STRUCTURE else ()
        functions = {node.function(name) for name in names if node.has(name)}
        functions = (functions | set(node.functions("branches") if node.has("branches") else ())) - visited
        visited.update(functions)
        bodies = [prepared_function(self._library, name) for name in sorted(functions)]
        return [(body, body.results, {(argument, 0): None for argument in body.arguments}) for body in bodies]

    def build(self, forms: Sequence[Form]) -> Graph:
        """Return the graph for inputs of these dtypes and shapes. Raises ModelError or UnsupportedModelError."""
        faults = Faults()
        translation = Translation(self._library, faults)
        graph = translation.emitter.graph
        for name in self._names:
            graph.unique_name(name)
        env: dict[Ref, Value] = {}
        for ref, value, (dtype, shape) in zip(self._given, self.inputs, forms, strict=True):
            graph.unique_name(value.name)
            env[ref] = Value(value.name, dtype, shape)
            graph.inputs.append(env[ref])
        try:
            translation.run(self._body, env, self._wanted)
            missing = [name for ref, name in zip(self._wanted, self._names, strict=True) if ref not in env]
            if missing and not faults:
                faults.add("the graph", f"it has no tensor {', '.join(map(repr, missing))}")
        except Fault as fault:
            faults.add("the graph", fault)
        faults.raise_all(self._title)
        translation.emitter.finish([env[ref] for ref in self._wanted], self._names)
        return graph

    def described(self) -> list[Value]:
        """Return the outputs with their dtypes, and their shapes as far as they are known before a run."""
        describer = Describer()
        given = {ref: describer.input(value) for ref, value in zip(self._given, self.inputs, strict=True)}
        infos = Outlook(self._library, describer).results(self._body, given, self._wanted)
        names = {dim for value in self.inputs for dim in value.shape or () if isinstance(dim, str)}
        symbols = _Symbols("out")
        shapes = [
            None if info.shape is None else symbols.shape([_declared(size, names) for size in info.shape])
            for info in infos
        ]
        return [Value(name, info.dtype, shape) for name, info, shape in zip(self._names, infos, shapes, strict=True)]


def _declared(size: int, names: set[str]) -> Dim | None:
    """Return a size as a number or by its name among `names`; None for other expressions."""
    if not is_expression(size):
        return size
    return str(size) if str(size) in names else None


class _Symbols:
    """Names for unknown dimensions: `?0`, `?1`, ..."""

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix
        self._count = 0

    def shape(self, dims: Sequence[Dim | None] | None) -> Shape | None:
        """Return `dims` with a new symbol for each unknown dimension."""
        return None if dims is None else tuple(self._dim(dim) for dim in dims)

    def _dim(self, dim: Dim | None) -> Dim:
        if dim is not None:
            return dim
        self._count += 1
        return f"?{self._prefix}{self._count - 1}"
