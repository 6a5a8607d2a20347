"""Shape rules and references applied to nodes, and whole graphs run on the references."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from treadle import dtypes
from treadle.dtypes import DType
from treadle.errors import GraphError, InputError, KernelError, LimitError, ShapeError, TreadleError
from treadle.graph.graph import Graph
from treadle.graph.node import Node
from treadle.graph.shape import are_numbers, elements, is_open, is_static, text
from treadle.graph.value import Value
from treadle.ops.bodies import INTERPRETER
from treadle.ops.bounds import check_bounds
from treadle.ops.elementwise import SCALAR_OPS
from treadle.ops.op import Array, Attrs, Info, OpDef
from treadle.ops.sizes import evaluate_on_sizes
from treadle.ops.table import OPS

_RESULT_DTYPES: dict[str, Callable[[Attrs, list[DType]], list[DType]]] = {
    **{name: lambda _, __: [dtypes.boolean] for name, op in SCALAR_OPS.items() if op.gives_bool},
    **dict.fromkeys(("shape", "size", "argmax", "argmin"), lambda _, __: [dtypes.i64]),
    **dict.fromkeys(("non_zero", "non_max_suppression"), lambda _, __: [dtypes.i64, dtypes.i64]),
    "cast": lambda attrs, _: [attrs["to"]],
    "constant_of_shape": lambda attrs, _: [dtypes.from_numpy(attrs["value"].dtype)],
    "where": lambda _, operands: [operands[1]],
    "one_hot": lambda _, operands: [operands[2]],
    "top_k": lambda _, operands: [operands[0], dtypes.i64],
    "branch": lambda attrs, _: [value.known_dtype for value in attrs["yes"].outputs],
    "deferred": lambda attrs, _: list(attrs["nodes"].dtypes),
    "loop": lambda attrs, _: [*(value.known_dtype for value in attrs["body"].outputs[1:]), dtypes.i64],
}
"""Dtypes of the results of those ops whose results are not of the first operand's dtype."""


MOST_FOLLOWED = 64
"""Values of shape arithmetic are followed up to this size."""


def definition(node: Node) -> OpDef:
    """The core op of `node`.

    Raises GraphError if there is none, or if the node has an impossible number of operands.
    """
    found = OPS.get(node.op)
    if found is None:
        raise GraphError(f"node {node.name!r}: no core op is called {node.op!r}")
    most = found.max_inputs
    count = len(node.inputs)
    if count < found.min_inputs or (most is not None and count > most):
        wanted = f"{found.min_inputs} or more" if most is None else f"{found.min_inputs} to {most}"
        raise GraphError(f"wanted {wanted} operands, got {count}", node.place, node.name)
    return found


def infer_node(node: Node, infos: Sequence[Info | None]) -> list[Info]:
    """What is known of the outputs of `node`, given what is known of its operands.

    Where an operand's shape is not known, the outputs' are None. A `call` without a shape rule gives
    an empty list, unless the front end has stated the dtypes of all its outputs. Raises ShapeError,
    naming the node and its op, if the operands do not fit, LimitError if an attribute or a result is too large;
    GraphError as `definition`.
    """
    op = definition(node)
    if any(info is not None and info.shape is None for info in infos) and node.op != "call":
        return [Info(dtype, None) for dtype in result_dtypes(node, infos)]
    try:
        check_bounds(node.op, node.attrs)
        found = op.infer(node.attrs, infos, len(node.outputs))
        for info in found:
            if info.shape is not None and are_numbers(info.shape):
                elements(info.shape)
    except (ShapeError, LimitError) as error:
        raise node.placed(error) from error
    except KeyError as error:
        raise GraphError(f"attribute {error} is missing", node.place, node.name) from error
    if not found and all(value.dtype is not None for value in node.outputs):
        return [Info(value.known_dtype, None) for value in node.outputs]
    if found and len(found) != len(node.outputs):
        raise GraphError(f"gives {len(found)} results, but has {len(node.outputs)} outputs", node.place, node.name)
    return found


def with_value(node: Node, inputs: Sequence[Info | None], output: Info) -> Info:
    """`output` with its value, where it is small and follows from known operands."""
    evaluate = OPS[node.op].evaluate if OPS[node.op].folds else None
    if evaluate is None or output.value is not None or output.shape is None or is_open(output.shape):
        return output
    if elements(output.shape) > MOST_FOLLOWED or output.dtype == dtypes.string:
        return output
    values = [None if info is None else info.value for info in inputs]
    known = all(info is None or info.value is not None for info in inputs)
    if not known or any(value is not None and value.size > MOST_FOLLOWED for value in values):
        return output
    if any(info is not None and has_expressions(info) for info in inputs):
        results = evaluate_on_sizes(node, values, evaluate)
        return output if results is None else Info(output.dtype, output.shape, results[0])
    try:
        return Info(output.dtype, output.shape, evaluate(node.attrs, values)[0])
    except (TreadleError, ArithmeticError, ValueError, IndexError):  # the run will tell, if it gets there
        return output


def has_expressions(info: Info) -> bool:
    """Whether some elements are known as expressions of sizes."""
    value = info.value
    return value is not None and value.dtype == object and info.dtype != dtypes.string


def result_dtypes(node: Node, infos: Sequence[Info | None]) -> list[DType]:
    """The dtypes of the outputs of `node`, which need no shapes (not for `call`)."""
    operands = [info.dtype for info in infos if info is not None]
    epilogue = node.attrs.get("epilogue") or node.attrs.get("expr")
    if epilogue is not None:
        return [epilogue.dtype(number) for number in epilogue.results]
    fixed = _RESULT_DTYPES.get(node.op)
    if fixed is not None:
        return fixed(node.attrs, operands)[: len(node.outputs)]
    return [operands[0]] * len(node.outputs)


def evaluate_node(node: Node, known: dict[str, Array]) -> None:
    """Compute the results of `node` by its reference: operands come from `known`, results go there, by value name.

    Raises as `results_of`.
    """
    operands = [None if v is None else known[v.name] if v.data is None else v.data for v in node.inputs]
    known.update(zip((value.name for value in node.outputs), results_of(node, operands), strict=True))


def results_of(node: Node, arrays: Sequence[Array | None]) -> list[Array]:
    """The results of `node` on `arrays`, by its reference.

    Raises ShapeError if the arrays do not fit and KernelError for impossible data; both name the node.
    """
    op = definition(node)
    if node.op == "reorder":
        return [array for array in arrays if array is not None]
    if node.op == "call":
        return list(node.attrs["function"](list(arrays)))
    infos = [None if a is None else Info(dtypes.from_numpy(a.dtype), a.shape, a) for a in arrays]
    infer_node(node, infos)
    assert op.evaluate is not None, f"{node.op} has no reference"
    try:
        return op.evaluate(node.attrs, arrays)
    except (ShapeError, KernelError) as error:
        raise type(error)(str(error), node.place, node.name) from error


def evaluate(graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """The outputs of `graph`, by name, computed by the references alone.

    Raises InputError unless `inputs` holds exactly the graph's inputs with their dtypes and shapes (a
    symbol must mean one number throughout).
    """
    known: dict[str, Array] = {}
    symbols: dict[str, int] = {}
    unknown = set(inputs) - {value.name for value in graph.inputs}
    if unknown:
        raise InputError(f"the graph has no input {', '.join(sorted(map(repr, unknown)))}")
    for value in graph.inputs:
        if value.name not in inputs:
            raise InputError(f"input {value.name!r} is missing")
        known[value.name] = _checked_input(value, np.asarray(inputs[value.name]), symbols)
    for node in graph.nodes:
        evaluate_node(node, known)
    return {value.name: known[value.name] if value.data is None else value.data for value in graph.outputs}


def _checked_input(value: Value, array: Array, symbols: dict[str, int]) -> Array:
    dtype = dtypes.from_numpy(array.dtype)
    if value.dtype is not None and dtype != value.dtype:
        raise InputError(f"input {value.name!r}: wanted {value.dtype}, got {dtype}")
    if value.shape is None:
        return array
    meant = tuple(symbols.setdefault(dim, array.shape[axis]) if isinstance(dim, str) and axis < array.ndim else dim
                  for axis, dim in enumerate(value.shape))  # fmt: skip
    if not is_static(meant) or meant != array.shape:
        raise InputError(f"input {value.name!r}: wanted shape {text(value.shape)}, got {text(array.shape)}")
    return array


def _inferred_with_value(node: Node, infos: Sequence[Info | None]) -> list[Info]:
    found = infer_node(node, infos)
    return [with_value(node, infos, found[0])] if len(found) == 1 else found


INTERPRETER.infer, INTERPRETER.evaluate = _inferred_with_value, evaluate
