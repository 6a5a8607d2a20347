"""Front ends read models of other systems into Graphs. One table maps each kind of model to its front end."""

import os
from collections.abc import Collection, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from treadle.errors import InputError, ModelFormatError
from treadle.frontends.files import folder_of
from treadle.graph.formed_model import FormedModel
from treadle.graph.graph import Graph
from treadle.graph.template import Template

ONNX, TENSORFLOW, TORCH = "treadle.frontends.onnx", "treadle.frontends.tensorflow", "treadle.frontends.torch"

SUFFIXES: dict[str, str] = {
    ".onnx": ONNX,
    ".pb": TENSORFLOW,
    ".pbtxt": TENSORFLOW,
    ".pt": TORCH,
    ".pth": TORCH,
    ".pt2": TORCH,
    ".torchscript": TORCH,
    ".ts": TORCH,
}
"""File suffix -> the module whose `load` reads such files; a file with any other suffix is tried as ONNX."""

TYPES: dict[str, str] = {
    "builtins.bytes": ONNX,
    "builtins.bytearray": ONNX,
    "builtins.memoryview": ONNX,
    "onnx.onnx_ml_pb2.ModelProto": ONNX,
    "tensorflow.core.framework.graph_pb2.GraphDef": TENSORFLOW,
    "treadle.frontends.tensorflow.messages.GraphDef": TENSORFLOW,
    "torch.nn.modules.module.Module": TORCH,
    "torch.export.exported_program.ExportedProgram": TORCH,
    "torch.jit._script.ScriptFunction": TORCH,
    "torch.jit.ScriptFunction": TORCH,
    "torch.jit.torch.jit.ScriptFunction": TORCH,  # PyTorch 2.13 writes the name so
}
"""Name of an object's type, or of one it inherits from -> the module whose `load` takes such objects.

Types are compared by name, because importing them costs time and their libraries may be absent."""

OPTIONS: dict[str, tuple[str, ...]] = {
    ONNX: ("strict_dims", "round_low_bits"),
    TENSORFLOW: ("inputs", "outputs", "signature"),
    TORCH: ("example_inputs", "dynamic_shapes"),
}
"""Front end -> the options that its `load` takes beside the model."""

LIBRARIES: dict[str, str] = {ONNX: "onnx", TORCH: "torch"}
"""Front end -> the library that reads its models, whose version decides what is read."""

TITLES = {ONNX: "ONNX", TENSORFLOW: "TensorFlow", TORCH: "PyTorch"}


def load(
    model: Any,
    example_inputs: Any = None,
    dynamic_shapes: Any = None,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    signature: str | None = None,
    strict_dims: bool | None = None,
    round_low_bits: bool | None = None,
) -> Graph | Template | FormedModel:
    """Reads `model`: a path, the bytes of a file, an onnx.ModelProto, a PyTorch module or exported program, a
    TensorFlow GraphDef, the folder of a SavedModel, or a Graph or Template (returned unchanged).

    The options belong to some front ends only (see OPTIONS). Raises ModelFormatError if no front end takes the model,
    InputError if its front end does not take an option, ModelError if the model cannot be used.
    """
    options = {
        "example_inputs": example_inputs, "dynamic_shapes": dynamic_shapes, "inputs": inputs, "outputs": outputs,
        "signature": signature, "strict_dims": strict_dims, "round_low_bits": round_low_bits,
    }  # fmt: skip
    given = {name: value for name, value in options.items() if value is not None}
    module = "" if isinstance(model, Graph | Template) else front_end(model)
    wrong = [name for name in given if name not in OPTIONS.get(module, ())]
    if wrong:
        owners = " and ".join(TITLES[owner] for owner, names in OPTIONS.items() if wrong[0] in names)
        raise InputError(f"{wrong[0]}= belongs to {owners} models; leave it out for this one")
    for name in ("inputs", "outputs"):
        names = given.get(name, ())
        if isinstance(names, str | bytes | Mapping) or not isinstance(names, Collection):
            raise InputError(f"{name}=: wanted a list of names of tensors, got {names!r} ({type(names).__name__})")
        for at, each in enumerate(names):
            if not isinstance(each, str):
                raise InputError(
                    f"{name}=: wanted names of tensors, got {each!r} ({type(each).__name__}) at place {at}"
                )
    if signature is not None and not isinstance(signature, str):
        raise InputError(f"signature=: wanted the name of a signature, got {signature!r} ({type(signature).__name__})")
    if not module:
        assert isinstance(model, Graph | Template)
        return model
    graph = import_module(module).load(model, **given)
    assert isinstance(graph, Graph | Template | FormedModel)
    return graph


def front_end(model: Any) -> str:
    """The module whose `load` takes `model`. Raises ModelFormatError if there is none."""
    if isinstance(model, str | os.PathLike):
        if folder_of(model) is not None:
            return TENSORFLOW
        return SUFFIXES.get(Path(os.fsdecode(os.fspath(model))).suffix.lower(), ONNX)
    names = [f"{base.__module__}.{base.__qualname__}" for base in type(model).__mro__]
    found = next((TYPES[name] for name in names if name in TYPES), None)
    if found is None:
        raise ModelFormatError(
            f"cannot load a model from an object of type {type(model).__name__}; wanted a path, bytes, an "
            "onnx.ModelProto, a torch.nn.Module, a torch.export.ExportedProgram, a TensorFlow GraphDef or a treadle "
            "Graph"
        )
    if found == ONNX and names[0].startswith("builtins.") and bytes(model[:1]) == b"\n":
        return TENSORFLOW  # a list of nodes comes first; the first field of an ONNX model is a number
    return found
