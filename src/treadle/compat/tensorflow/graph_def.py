"""Import of graphs from files: tf.import_graph_def."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from treadle.compat.tensorflow import context, control_flow
from treadle.compat.tensorflow.convert import constant_in, convert_to_tensor
from treadle.compat.tensorflow.errors import UnimplementedError, message_of
from treadle.compat.tensorflow.func_graph import FuncGraph
from treadle.compat.tensorflow.graph import Graph, Operation
from treadle.compat.tensorflow.placeholders import placeholder
from treadle.compat.tensorflow.shape import TensorShape
from treadle.compat.tensorflow.tensor import Tensor
from treadle.dtypes import f32 as float32
from treadle.errors import ModelError
from treadle.frontends.deferred_nodes import NeedsShapeError
from treadle.frontends.faults import Fault, Faults
from treadle.frontends.tensorflow.body import BRANCHES, Body, Library, graph_body, needed, sorted_nodes
from treadle.frontends.tensorflow.control_nodes import OPERAND_ERRORS, prepared
from treadle.frontends.tensorflow.declared import constant_array, declared_dtype
from treadle.frontends.tensorflow.frames import FRAME, frame_parts
from treadle.frontends.tensorflow.messages import GraphDef
from treadle.frontends.tensorflow.node import Node, Ref, tensor_name, tensor_ref
from treadle.frontends.tensorflow.nodes import NODES
from treadle.frontends.tensorflow.reader import read
from treadle.frontends.tensorflow.switches import SIDES, branch_parts
from treadle.frontends.tensorflow.translate import WITHOUT_RESULTS
from treadle.ops.op import Info


def import_graph_def(
    graph_def: Any,
    input_map: Mapping[str, Any] | None = None,
    return_elements: Sequence[str] | None = None,
    name: str | None = None,
    op_dict: Any = None,
    producer_op_list: Any = None,
) -> list[Any] | None:
    """Add the nodes of a GraphDef to the current graph.

    See tf.graph_util.import_graph_def in TensorFlow's documentation.

    Args:
        graph_def: a GraphDef of treadle or TensorFlow.
        input_map: tensors that replace tensors of the file, by name ("name", "name:1").
        return_elements: names of tensors ("name:0") and operations ("name") to return.
        name: the prefix of the names; None for "import", "" for none.
        op_dict: has no effect.
        producer_op_list: has no effect.

    Returns:
        The `return_elements`, or None without them.

    Raises:
        TypeError: `graph_def` is not a GraphDef.
        ValueError: a graph that cannot be used, or names that it does not have.
        tf.errors.UnimplementedError: in the run, for an op that treadle does not have.
    """
    if not hasattr(graph_def, "SerializeToString"):
        raise TypeError(f"graph_def must be a GraphDef proto, got {type(graph_def).__name__}")
    graph = context.get_default_graph()
    faults = Faults()
    try:
        message, title = read(graph_def) if graph_def.ByteSize() else (GraphDef(), "the GraphDef")
        library = Library(message.library.function)
        whole = graph_body(message.node, faults)
        faults.raise_all(title)
        body = prepared(whole, library)
        with graph.as_default(), graph.name_scope("import" if name is None else name):
            importer = _Importer(graph, library, body, _parse_input_map(input_map, whole))
            importer.run()
            importer.name_replaced_nodes(whole)
    except (Fault, ModelError) as error:
        raise ValueError(f"import_graph_def: {error}") from error
    return None if return_elements is None else [importer.element(str(element)) for element in return_elements]


def _parse_input_map(input_map: Mapping[str, Any] | None, whole: Body) -> dict[Ref, Tensor]:
    """Return the tensors that replace tensors of the file. Raises ValueError for unknown names."""
    found: dict[Ref, Tensor] = {}
    for key, value in (input_map or {}).items():
        ref = tensor_ref(str(key))
        if ref[0] not in whole.nodes:
            raise ValueError(f"input_map names {key!r}, which graph_def does not have")
        tensor = convert_to_tensor(value)
        assert isinstance(tensor, Tensor)
        found[ref] = tensor
    return found


class _Importer:
    """Creates the operations of the nodes of one body. `env` holds the tensors created so far, or given."""

    def __init__(self, graph: Graph, library: Library, body: Body, given: Mapping[Ref, Tensor]) -> None:
        self._graph = graph
        self._library = library
        self._body = body
        self._env: dict[Ref, Tensor] = dict(given)
        self._ops: dict[str, Operation] = {}
        self._counts = _result_counts(body)

    def run(self, wanted: Sequence[Ref] | None = None) -> None:
        """Create the operations of all nodes, or of those that `wanted` depend on.

        Raises Fault or ValueError for invalid nodes.
        """
        chosen = list(self._body.nodes.values()) if wanted is None else needed(self._body, wanted, self._env)
        for node in sorted_nodes(chosen, self._env):
            if (node.name, 0) in self._env and not node.inputs and node.op != "Const":
                continue  # a given placeholder or argument
            if wanted is None and any(ref not in self._env for ref in node.inputs):
                continue  # it is inside a loop of TensorFlow 1, which creates it
            inputs = [self._env[ref] if ref in self._env else self._raise_missing(ref, node) for ref in node.inputs]
            outputs = self._create(node, inputs)
            if outputs:
                self._ops[node.name] = outputs[0].op
            for index, tensor in enumerate(outputs):
                self._env.setdefault((node.name, index), tensor)
            controls = (self._ops[other] for other in node.controls if other in self._ops)
            if node.name in self._ops:
                op = self._ops[node.name]
                op.control_inputs.extend(other for other in controls if other not in (*op.control_inputs, op))

    def results(self) -> list[Tensor]:
        """Return the results of the body of a function."""
        return [self._env[ref] for ref in self._body.results]

    def name_replaced_nodes(self, whole: Body) -> None:
        """Make nodes that were replaced (calls, branches of TensorFlow 1) available under their names."""
        replaced = [node for name, node in whole.nodes.items() if name not in self._body.nodes]
        for node in replaced:
            count = 1 + max((index for name, index in self._body.aliases if name == node.name), default=-1)
            known = [self._env.get(self._body.resolved((node.name, index))) for index in range(count)]
            found = [tensor for tensor in known if tensor is not None]
            if len(found) == count > 0:
                op = self._graph.create_op(
                    node.op,
                    found,
                    lambda e, v: [e.add("identity", item) for item in v],
                    node.name,
                    outputs=[tensor.info for tensor in found],
                )
                self._ops[node.name] = op
                self._env.update(((node.name, index), tensor) for index, tensor in enumerate(op.outputs))

    def element(self, text: str) -> Any:
        """Return the tensor "name:0" or the operation "name". Raises ValueError if there is none."""
        ref = tensor_ref(text)
        found: Any = self._env.get(ref) if ":" in text else self._ops.get(text)
        if found is None:
            raise ValueError(f"Requested return_element {text!r} not found in graph_def.")
        return found

    def _raise_missing(self, ref: Ref, node: Node) -> Tensor:
        raise Fault(f"{node.place} reads {tensor_name(ref)!r}, which is not a tensor")

    def _create(self, node: Node, inputs: list[Tensor]) -> Sequence[Tensor]:
        """Create the operation of `node` and return its results."""
        if node.op in ("Placeholder", "PlaceholderV2"):
            return [placeholder(declared_dtype(node, 0), node.attr("shape"), node.name)]
        if node.op == "Const":
            return [constant_in(self._graph, constant_array(node), node.name)]
        if node.op in WITHOUT_RESULTS:
            self._ops[node.name] = self._graph.create_op(node.op, (), lambda _e, _v: [], node.name, outputs=[])
            return ()
        if node.op in _COMPOUND:
            return _COMPOUND[node.op](self, node, inputs)
        known = node.op in NODES
        count = self._counts.get(node.name, 1)
        dtypes = [declared_dtype(node, index) for index in range(count)] if known else [float32] * count
        op = self._graph.create_op(
            node.op,
            inputs,
            _emitter_of(node) if known else _unsupported(node),
            node.name,
            outputs=None if known else [Info(dtype, None) for dtype in dtypes],
            result_types=lambda: dtypes,
            attrs=dict(node.attrs),
        )
        for index in range(len(op.outputs), count):
            op.outputs.append(Tensor(op, index, Info(dtypes[index], None)))
        return op.outputs

    def branch(self, node: Node, inputs: list[Tensor]) -> Sequence[Tensor]:
        yes, no = (self._function(node.function(name), inputs[1:]) for name in ("then_branch", "else_branch"))
        return _tensors(control_flow.cond(inputs[0], yes, no, node.name))

    def case(self, node: Node, inputs: list[Tensor]) -> Sequence[Tensor]:
        functions = [self._function(name, inputs[1:]) for name in node.functions("branches")]
        return _tensors(control_flow.switch_case(inputs[0], functions, name=node.name))

    def loop(self, node: Node, inputs: list[Tensor]) -> Sequence[Tensor]:
        test, step = (self._library.body(node.function(name)) for name in ("cond", "body"))
        shapes = node.attr("output_shapes", [])
        known = [TensorShape(shapes[at] if at < len(shapes) else None) for at in range(len(inputs))]
        return _tensors(
            control_flow.while_loop(
                lambda *state: self._inline_call(test, state)[0],
                lambda *state: self._inline_call(step, state),
                inputs,
                shape_invariants=known,
                name=node.name,
            )
        )

    def frame(self, node: Node, inputs: list[Tensor]) -> Sequence[Tensor]:
        frame = node.attr("frame")
        count = len(frame.results)

        test, step = frame_parts(node)
        anything = [TensorShape(None)] * count
        found = control_flow.while_loop(
            lambda *state: self._trace_part(*test, (*state, *inputs[count:]))[0],
            lambda *state: self._trace_part(*step, (*state, *inputs[count:])),
            inputs[:count],
            shape_invariants=anything,
            name=node.name,
        )
        return _tensors(found)

    def branch_parts(self, node: Node, inputs: list[Tensor]) -> Sequence[Tensor]:
        no, yes = (partial(self._trace_part, wanted, given, inputs[1:]) for wanted, given in branch_parts(node))
        return _tensors(control_flow.cond(inputs[0], yes, no, node.name))

    def _trace_part(self, wanted: list[Ref], given: Mapping[Ref, None], values: Sequence[Tensor]) -> list[Tensor]:
        """Create the part of the body that computes `wanted` from `values` for `given`, in the current graph."""
        graph = context.get_default_graph()
        read = [graph.enter(tensor) for tensor in values]
        inner = _Importer(graph, self._library, self._body, dict(zip(given, read, strict=True)))
        inner.run(wanted)
        return [inner._env[ref] for ref in wanted]

    def _function(self, name: str, inputs: Sequence[Tensor]) -> Callable[[], list[Tensor]]:
        body = self._library.body(name)
        return lambda: self._inline_call(body, inputs)

    def _inline_call(self, body: Body, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Create the operations of a function in the current graph and return its results."""
        graph = context.get_default_graph()
        ready = prepared(body, self._library)
        if len(ready.arguments) != len(inputs):
            raise Fault(f"a function takes {len(ready.arguments)} inputs, got {len(inputs)}")
        arguments = zip(ready.arguments, inputs, strict=True)
        enter = graph.enter if isinstance(graph, FuncGraph) else lambda tensor: tensor
        inner = _Importer(graph, self._library, ready, {(name, 0): enter(tensor) for name, tensor in arguments})
        inner.run()
        return inner.results()


def _tensors(found: Any) -> list[Tensor]:
    return [found] if isinstance(found, Tensor) else list(found)


def _result_counts(body: Body) -> dict[str, int]:
    """Return how many results of each node are read."""
    counts: dict[str, int] = {}
    for name, index in (*(ref for node in body.nodes.values() for ref in node.inputs), *body.results):
        counts[name] = max(counts.get(name, 0), index + 1)
    return counts


def _emitter_of(node: Node) -> Callable[..., Any]:
    """Return the function that adds the core nodes of `node`."""

    def emit(e: Any, values: Any) -> Any:
        try:
            return NODES[node.op].emit(e, node, values)
        except NeedsShapeError:
            raise
        except Fault as fault:
            raise ValueError(str(fault)) from fault
        except OPERAND_ERRORS as error:
            raise ValueError(message_of(error)) from error

    return emit


def _unsupported(node: Node) -> Callable[..., Any]:
    """Return the emitter of an op that treadle does not have; it raises when a run needs the op."""

    def emit(_e: Any, _values: Any) -> Any:
        raise UnimplementedError(None, None, f"treadle does not have the op {node.op} of the node {node.name!r}")

    return emit


_COMPOUND: dict[str, Callable[[_Importer, Node, list[Tensor]], Sequence[Tensor]]] = {
    **dict.fromkeys(BRANCHES, _Importer.branch),
    **dict.fromkeys(("Case", "StatelessCase"), _Importer.case),
    **dict.fromkeys(("While", "StatelessWhile"), _Importer.loop),
    FRAME: _Importer.frame,
    SIDES: _Importer.branch_parts,
}
"""Ops that run parts of the graph."""
