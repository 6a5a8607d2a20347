"""Front ends: from what users have to a Graph. One table says which front end takes what."""

import os
from importlib import import_module
from pathlib import Path
from typing import Any

from weft.errors import InputError, ModelFormatError
from weft.graph.graph import Graph
from weft.graph.template import Template

ONNX, TORCH = "weft.frontends.onnx", "weft.frontends.torch"

SUFFIXES: dict[str, str] = {
    ".onnx": ONNX,
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
    "torch.nn.modules.module.Module": TORCH,
    "torch.export.exported_program.ExportedProgram": TORCH,
    "torch.jit._script.ScriptFunction": TORCH,
    "torch.jit.ScriptFunction": TORCH,
}
"""Name of an object's type, or of one it inherits from -> the module whose `load` takes such objects.

By name: importing the types costs time, and their libraries may be absent."""

TAKES_EXAMPLES = (TORCH,)
"""Front ends whose `load` takes example inputs and dynamic shapes."""


def load(model: Any, example_inputs: Any = None, dynamic_shapes: Any = None) -> Graph | Template:
    """What to run of `model`: a path, the bytes of a file, an onnx.ModelProto, a PyTorch module or exported program, or
    a Graph or Template (returned as it is).

    Raises ModelFormatError if no front end takes it, InputError if its front end takes no example inputs, ModelError
    if the model cannot be used.
    """
    if isinstance(model, Graph | Template):
        return model
    if isinstance(model, str | os.PathLike):
        suffix = Path(os.fspath(model)).suffix.lower() if isinstance(os.fspath(model), str) else ""
        module = SUFFIXES.get(suffix, ONNX)
    else:
        names = [f"{base.__module__}.{base.__qualname__}" for base in type(model).__mro__]
        found = next((TYPES[name] for name in names if name in TYPES), None)
        if found is None:
            raise ModelFormatError(
                f"cannot load a model from an object of type {type(model).__name__}; wanted a path, bytes, "
                "an onnx.ModelProto, a torch.nn.Module, a torch.export.ExportedProgram or a weft Graph"
            )
        module = found
    if module in TAKES_EXAMPLES:
        graph = import_module(module).load(model, example_inputs, dynamic_shapes)
    elif example_inputs is None and dynamic_shapes is None:
        graph = import_module(module).load(model)
    else:
        raise InputError("example_inputs and dynamic_shapes belong to PyTorch models; leave them out for this one")
    assert isinstance(graph, Graph | Template)
    return graph
