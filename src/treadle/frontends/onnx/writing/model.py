"""A graph as an ONNX model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import onnx
from onnx import TensorProto, defs, helper

from treadle.errors import UnsupportedModelError
from treadle.frontends.onnx.from_bytes import FROM_BYTES
from treadle.frontends.onnx.loop import LoopFunction
from treadle.frontends.onnx.opsets import domain_of
from treadle.frontends.onnx.reference import ForeignFunction
from treadle.frontends.onnx.types import NUMBERS
from treadle.frontends.onnx.writing.control import write_node
from treadle.frontends.onnx.writing.sizes import note_places, symbol_name
from treadle.frontends.onnx.writing.writer import Unwritable, Writer
from treadle.graph.graph import Graph, all_nodes
from treadle.graph.value import Value

VERSION = 21
"""The operator set that is written, unless nodes of the model that have stayed are of another."""

_OLDEST = 18
"""The operator set from which on reductions, Split and Pad have the form that is written."""

_NEWER = {"cumprod": 26}
"""The operator sets of core ops that VERSION has no operator for."""

IR_VERSION = 10
"""The file format that came with VERSION."""


def model_of(
    graph: Graph, inputs: Sequence[Value], outputs: Sequence[Value], notes: Mapping[str, str]
) -> onnx.ModelProto:
    """Return `graph`, with shapes inferred as far as they can be, as an ONNX model.

    Args:
        graph: The graph.
        inputs: The inputs as the model declares them, with names of open dimensions.
        outputs: The outputs as the model declares them: their names are kept.
        notes: Metadata of the model.

    Raises:
        UnsupportedModelError: Nodes cannot be expressed; it lists all.
    """
    w = Writer(_version(graph))
    for value, stated in zip(graph.inputs, inputs, strict=True):
        w.set_name(value, w.fresh(stated.name))
    wanted = [w.fresh(value.name) for value in outputs]
    for value, name in zip(graph.outputs, wanted, strict=True):
        if value.producer is not None and not w.has_name(value):
            w.set_name(value, name)
    note_places(graph.inputs, w)
    faults = []
    for node in graph.nodes:
        try:
            write_node(node, w)
        except Unwritable as fault:
            faults.append(f"{node.place}: {fault}")
    if faults:
        raise UnsupportedModelError(
            "\n".join(["the model cannot be written as ONNX", *(f"  {each}" for each in faults)])
        )
    for value, name in zip(graph.outputs, wanted, strict=True):
        if w.name(value) != name:
            w.emit("Identity", [w.name(value)], [name])
    written = helper.make_graph(
        w.nodes,
        graph.name,
        [_info(name, value, value) for name, value in zip((v.name for v in inputs), inputs, strict=True)],
        [_info(name, value, stated) for name, value, stated in zip(wanted, graph.outputs, outputs, strict=True)],
        w.constants,
    )
    imports = [helper.make_opsetid("", w.version), *(helper.make_opsetid(*each) for each in w.domains.items())]
    model = helper.make_model(
        written,
        opset_imports=imports,
        functions=list(w.functions.values()),
        producer_name="treadle",
        ir_version=IR_VERSION,
    )
    helper.set_model_props(model, dict(notes))
    return model


def data_of(path: Path) -> Path:
    """Return the file beside `path` that has weights."""
    return path.with_name(f"{path.name}.data")


def save(model: onnx.ModelProto, path: Path, *, apart: bool) -> None:
    """Write `model` to `path`, with its weights beside it if `apart`. Files are replaced once new ones are whole.

    Raises OSError.
    """
    with TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as folder:
        made, data = Path(folder) / path.name, data_of(path)
        onnx.save_model(model, made, save_as_external_data=apart, location=data.name, size_threshold=0)
        if apart:
            (Path(folder) / data.name).replace(data)
        made.replace(path)


def _version(graph: Graph) -> int:
    """The operator set to write: that of the model's own nodes in the graph, if there are any."""
    found = {
        function.fragment.versions[""]
        for node in all_nodes(graph)
        if isinstance(function := node.attrs.get("function"), ForeignFunction | LoopFunction)
        and any(not domain_of(proto.domain) and proto.op_type != FROM_BYTES for proto in function.fragment.nodes)
    }
    if found and min(found) < _OLDEST:
        raise UnsupportedModelError(
            f"nodes without a core op are of operator set {min(found)}; wanted {_OLDEST} or newer to write them: "
            "convert the model with onnx.version_converter first"
        )
    newer = {version for op, version in _NEWER.items() if any(node.op == op for node in all_nodes(graph))}
    return max({*found, *newer}, default=min(VERSION, defs.onnx_opset_version()))


def _info(name: str, value: Value, stated: Value) -> onnx.ValueInfoProto:
    """What the file declares of an input or output: the names of open dimensions, None where they have none."""
    dtype = value.dtype if value.dtype is not None else stated.dtype
    shape = value.shape if value.shape is not None else stated.shape
    kind = TensorProto.UNDEFINED if dtype is None else NUMBERS[dtype]
    return helper.make_tensor_value_info(name, kind, None if shape is None else [_dim(size) for size in shape])


def _dim(size: object) -> int | str | None:
    if isinstance(size, str):
        return None if size.startswith("?") else size
    return size if type(size) is int else symbol_name(size)
