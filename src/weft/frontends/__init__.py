"""Front ends: from what users have to a Graph. One table says which front end takes what."""

import os
from importlib import import_module
from pathlib import Path
from typing import Any

from weft.errors import ModelFormatError
from weft.graph.graph import Graph

SUFFIXES: dict[str, str] = {
    ".onnx": "weft.frontends.onnx",
}
"""File suffix -> the module whose `load` reads such files; a file with any other suffix is tried as ONNX."""

TYPES: dict[str, str] = {
    "bytes": "weft.frontends.onnx",
    "bytearray": "weft.frontends.onnx",
    "memoryview": "weft.frontends.onnx",
    "ModelProto": "weft.frontends.onnx",
}
"""Name of an object's type -> the module whose `load` takes such objects (by name: importing them costs time)."""


def load(model: Any) -> Graph:
    """The Graph of `model`: a path, the bytes of a file, an onnx.ModelProto, or a Graph (returned as it is).

    Raises ModelFormatError if no front end takes it, ModelError if the model cannot be used.
    """
    if isinstance(model, Graph):
        return model
    if isinstance(model, str | os.PathLike):
        suffix = Path(os.fspath(model)).suffix.lower() if isinstance(os.fspath(model), str) else ""
        module = SUFFIXES.get(suffix, SUFFIXES[".onnx"])
    else:
        found = TYPES.get(type(model).__name__)
        if found is None:
            raise ModelFormatError(
                f"cannot load a model from an object of type {type(model).__name__}; "
                "wanted a path, bytes, an onnx.ModelProto or a weft Graph"
            )
        module = found
    graph = import_module(module).load(model)
    assert isinstance(graph, Graph)
    return graph
