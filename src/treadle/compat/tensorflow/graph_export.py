"""Export of graphs to files: tf.Graph.as_graph_def, by the same rules that files are read by."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from treadle import dtypes
from treadle.compat.tensorflow.dtypes import DType as FacadeDType
from treadle.compat.tensorflow.dtypes import as_dtype
from treadle.compat.tensorflow.errors import UnimplementedError
from treadle.compat.tensorflow.tensor import Tensor, constant_value
from treadle.dtypes import DType
from treadle.frontends.tensorflow.messages import GraphDef
from treadle.frontends.tensorflow.node import attr_value
from treadle.frontends.tensorflow.node_rules import PARAMETERS, NodeRule
from treadle.frontends.tensorflow.nodes import NODES, STRUCTURE
from treadle.frontends.tensorflow.rules.conv import Layout

if TYPE_CHECKING:
    from treadle.compat.tensorflow.graph import Graph, Operation

PRODUCER = 27
"""The version of graphs in which attributes have the defaults that the rules assume."""

EQUIVALENTS = {
    "clip_by_value": "_clip_by_value", "divide": "_div", "equal": "_equal", "mod": "floormod",
    "nn.embedding_lookup": "gather", "not_equal": "_not_equal", "truediv": "_div",
}  # fmt: skip
"""Ops of the facade that files represent by another op."""

PREFERRED = (
    "AddV2", "BatchMatMulV2", "ConcatV2", "GatherV2", "Identity", "Pad", "Reciprocal", "Round", "SelectV2", "TopKV2",
)  # fmt: skip
"""Ops that are tried first where several represent a rule."""

TYPES = {
    "All": "- Tidx", "Any": "- Tidx", "ArgMax": "T Tidx", "ArgMin": "T Tidx", "BatchToSpaceND": "T Tblock_shape Tcrops",
    "BroadcastTo": "T Tidx", "Cast": "SrcT", "ConcatV2": "T Tidx", "Conv2DBackpropInput": "- T", "Cumsum": "T Tidx",
    "ExpandDims": "T Tdim", "Gather": "Tparams Tindices", "Fill": "index_type T", "FusedBatchNormV3": "T U",
    "GatherNd": "Tparams Tindices",
    "GatherV2": "Tparams Tindices Taxis", "LogicalAnd": "-", "LogicalNot": "-", "LogicalOr": "-", "Max": "T Tidx",
    "MatrixBandPart": "T Tindex", "Mean": "T Tidx", "Min": "T Tidx", "MirrorPad": "T Tpaddings", "OneHot": "TI - T",
    "Pad": "T Tpaddings", "PadV2": "T Tpaddings", "Prod": "T Tidx", "Range": "Tidx", "Reshape": "T Tshape",
    "ReverseV2": "T Tidx", "ScatterNd": "Tindices T", "Slice": "T Index", "SpaceToBatchND": "T Tblock_shape Tpaddings",
    "Split": "- T", "SplitV": "T Tlen", "Sum": "T Tidx", "TensorScatterUpdate": "T Tindices", "Tile": "T Tmultiples",
    "Transpose": "T Tperm", "Select": "- T", "SelectV2": "- T",
}  # fmt: skip
"""The attributes that hold the element type of each input, `-` for none; T for the first input of other ops."""

CONDITIONS: dict[str, Callable[[dict[str, Any], Any], bool]] = {
    "MirrorPad": lambda given, _: given["mode"] != "CONSTANT",
    "RealDiv": lambda _, dtype: dtype.is_floating,
    "Div": lambda _, __: False,
    "Split": lambda given, _: isinstance(given["num_or_size_splits"], int),
    "SplitV": lambda given, _: isinstance(given["num_or_size_splits"], tuple),
}
"""Ops that represent some arguments only: conditions on the arguments and the dtype of the first tensor."""


def graph_def_of(graph: Graph) -> Any:
    """Return the GraphDef of `graph`. Raises UnimplementedError, which lists the operations that files cannot hold."""
    message = GraphDef()
    message.versions.producer = PRODUCER
    unsupported = [f"{op.name!r} ({op.type})" for op in graph.get_operations() if not _write(message, op)]
    if unsupported:
        raise UnimplementedError(None, None, f"files of graphs cannot hold {', '.join(unsupported)}")
    return message


def _write(message: Any, op: Operation) -> bool:
    """Add the nodes of `op`. Returns False if files cannot hold it."""
    known = [constant_value(tensor) for tensor in op.outputs]
    if not op.inputs and len(known) == 1 and known[0] is not None:
        node = _node(message, op, "Const", [])
        _set(node, dtype=dtypes.from_numpy(known[0].dtype), value=known[0])
        return True
    if op.kind in ("Placeholder", "PlaceholderV2"):
        dims = op.outputs[0].shape.dims
        _set(_node(message, op, "Placeholder", []), dtype=op.outputs[0].dtype.core, shape=() if dims is None else dims)
        if dims is None:
            message.node[-1].attr["shape"].shape.unknown_rank = True
        return True
    if op.kind in ("NoOp", "PlaceholderWithDefault"):
        node = _node(message, op, op.kind, op.inputs)
        for tensor in op.outputs:
            _set(node, dtype=tensor.dtype.core, shape=tensor.shape.dims or ())
        return True
    if op.call is None and isinstance(NODES.get(op.kind), NodeRule) and op.kind not in STRUCTURE:
        _set(_node(message, op, op.kind, op.inputs), **op.attrs)
        return True
    return op.call is not None and _write_call(message, op, *op.call)


def _write_call(message: Any, op: Operation, rule: str, plan: Any) -> bool:
    """Add the nodes of an operation that a call of `rule` created."""
    tensors = iter(op.inputs)
    given = {name: value if count is None else _take_tensors(tensors, count) for name, count, value in plan}
    if rule == "_index":
        return _write_slice(message, op, given)
    first = op.inputs[0] if op.inputs else op.outputs[0]
    if rule in ("divide", "div_no_nan", "nn.leaky_relu", "truediv") and first.dtype.is_integer:
        return False
    given = {"indices" if (rule, name) == ("nn.embedding_lookup", "ids") else name: v for name, v in given.items()}
    given = _with_defaults(rule, given, first)
    for kind, node_rule in _candidates(EQUIVALENTS.get(rule, rule), first.shape.rank or 0):
        if _fits(node_rule, given) and (kind not in CONDITIONS or CONDITIONS[kind](given, first.dtype)):
            _write_rule(message, op, kind, node_rule, given)
            return True
    return False


def _with_defaults(rule: str, given: dict[str, Any], first: Tensor) -> dict[str, Any]:
    """Return `given` with the arguments that calls may omit, but files may not."""
    given = {name: value for name, value in given.items() if value is not None}
    if rule.startswith("reduce_") and "axis" not in given and first.shape.rank is not None:
        return {**given, "axis": tuple(range(first.shape.rank))}
    if rule == "nn.fused_batch_norm":
        return {"epsilon": 0.001, "is_training": False, **given}
    if rule == "gather" and "batch_dims" in given:
        return {"axis": given["batch_dims"], **given}
    if rule == "one_hot":
        return {"on_value": 1, "off_value": 0, **given}
    if rule == "range":
        bounds = {"start": 0, "limit": given["start"]} if "limit" not in given else {}
        return {"delta": 1, **given, **bounds}
    return given


def _take_tensors(tensors: Iterator[Tensor], count: int) -> list[Tensor] | None:
    return [next(tensors) for _ in range(count)] if count > 0 else None


def _candidates(rule: str, rank: int) -> list[tuple[str, NodeRule]]:
    forms = [
        (kind, node_rule)
        for kind, node_rule in NODES.items()
        if isinstance(node_rule, NodeRule) and node_rule.rule == rule
    ]
    found = [(kind, node_rule) for kind, node_rule in forms if node_rule.rank in (None, rank)]
    return sorted(found, key=lambda item: (item[0] not in PREFERRED, item[1].rank is None))


def _fits(node_rule: NodeRule, given: dict[str, Any]) -> bool:
    """Return whether the node represents all arguments: those it cannot hold must have their defaults."""
    inputs = [name.lstrip("*") for name in node_rule.inputs.split()]
    if any(name not in given for name in inputs):
        return False
    parameters = PARAMETERS[node_rule.rule].signature.parameters
    said = {*inputs, *node_rule.reads().values(), *node_rule.fixed}
    return all(
        name in said or name not in parameters or value == parameters[name].default for name, value in given.items()
    )


def _write_rule(message: Any, op: Operation, kind: str, node_rule: NodeRule, given: dict[str, Any]) -> None:
    groups: list[list[tuple[Tensor | str, DType]]] = []
    for text in node_rule.inputs.split():
        value = given[text.lstrip("*")]
        known = isinstance(value, list)
        groups.append([(t, t.dtype.core) for t in value] if known else [_constant(message, op, text, value)])
    node = _node(message, op, kind, [name for group in groups for name, _ in group])
    for attribute, group in zip(TYPES.get(kind, "T").split(), groups, strict=False):
        if attribute != "-":
            _set(node, **{attribute: group[0][1]})
    if "*" in node_rule.inputs:
        _set(node, N=max(map(len, groups)))
    if kind == "SplitV":
        _set(node, num_split=len(op.outputs))
    parameters = PARAMETERS[node_rule.rule]
    for name, parameter in node_rule.reads().items():
        value = given.get(parameter)
        if value is None or isinstance(value, list):
            continue
        if parameter in parameters.dtypes:
            value = as_dtype(value).core
        elif isinstance(parameters.signature.parameters[parameter].default, float):
            value = float(value)
        _set_attribute(node, name, value, op.inputs[-1].shape.rank or 0, given)


def _set_attribute(node: Any, name: str, value: Any, rank: int, given: dict[str, Any]) -> None:
    """Set an attribute, with windows in TensorFlow's representation."""
    if name in ("strides", "dilations", "ksize"):
        layout = Layout(rank, given.get("data_format"))
        inner = layout.spatial(name, value)
        _set(node, **{name: [1, *inner, 1] if layout.last else [1, 1, *inner]})
    elif name == "padding" and not isinstance(value, str):
        _set(node, padding="EXPLICIT", explicit_paddings=[int(number) for pair in value for number in pair])
    else:
        _set(node, **{name: list(value) if isinstance(value, tuple) else value})


def _write_slice(message: Any, op: Operation, given: dict[str, Any]) -> bool:
    """Add tensor[...] as a StridedSlice. Returns False if a bound is known only when the graph runs."""
    tensor, bounds = given["tensor"][0], [constant_value(bound) for bound in given["bounds"]]
    if any(bound is None for bound in bounds):
        return False
    masks = dict.fromkeys(("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"), 0)
    rows: list[tuple[int, int, int]] = []
    for at, (kind, *numbers) in enumerate(given["items"]):
        values = [None if number is None else int(bounds[number]) for number in numbers]
        if kind == "slice":
            begin, end, step = values
            rows.append((begin or 0, end or 0, 1 if step is None else step))
            masks["begin_mask"] |= (begin is None) << at
            masks["end_mask"] |= (end is None) << at
        elif kind == "at":
            rows.append((values[0] or 0, (values[0] or 0) + 1, 1))
            masks["shrink_axis_mask"] |= 1 << at
        else:
            rows.append((0, 0, 1))
            masks["new_axis_mask" if kind == "new" else "ellipsis_mask"] |= 1 << at
    vectors = [[row[column] for row in rows] for column in range(3)]
    names = [
        _constant(message, op, part, numbers)[0]
        for part, numbers in zip(("begin", "end", "strides"), vectors, strict=True)
    ]
    _set(_node(message, op, "StridedSlice", [tensor, *names]), T=tensor.dtype.core, Index=dtypes.i32, **masks)
    return True


def _constant(message: Any, op: Operation, part: str, value: Any) -> tuple[str, DType]:
    """Add a Const for an argument and return its name and dtype: int32 for integers, else the dtype of the result."""
    array = np.asarray(value)
    of_result = array.dtype.kind == "f" and array.size
    kind = (
        op.outputs[0].dtype.core if of_result or part in ("on_value", "off_value") or op.kind == "range" else dtypes.i32
    )
    if array.dtype.kind in "iuf":
        array = array.astype(kind.numpy)
    node = message.node.add(name=f"{op.name}/{part.lstrip('*')}", op="Const")
    _set(node, dtype=dtypes.from_numpy(array.dtype), value=array)
    return str(node.name), dtypes.from_numpy(array.dtype)


def _node(message: Any, op: Operation, kind: str, inputs: Sequence[Tensor | str]) -> Any:
    names = [item if isinstance(item, str) else item.name.removesuffix(":0") for item in inputs]
    names += [f"^{other.name}" for other in op.control_inputs]
    return message.node.add(name=op.name, op=kind, input=names, device=op.device)


def _set(node: Any, **attrs: Any) -> None:
    for name, value in attrs.items():
        node.attr[name].CopyFrom(attr_value(value.core if isinstance(value, FacadeDType) else value))
