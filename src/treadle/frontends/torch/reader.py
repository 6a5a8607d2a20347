"""Accepts what the front end reads: a path, a module, an exported program, a script."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any

import torch

from treadle.errors import ModelFormatError
from treadle.frontends.torch.exported import export, from_program
from treadle.frontends.torch.script import from_script
from treadle.graph.graph import Graph
from treadle.graph.template import Template


def read(model: Any, example_inputs: Any, dynamic_shapes: Any) -> Graph | Template:
    """Implements `treadle.frontends.torch.load`."""
    if isinstance(model, str | os.PathLike):
        model = _file(Path(os.fspath(model)))
    if isinstance(model, torch.export.ExportedProgram):
        return from_program(model)
    if isinstance(model, torch.jit.ScriptModule | torch.jit.ScriptFunction):
        return from_script(model, example_inputs)
    if isinstance(model, torch.nn.Module):
        return from_program(export(model, example_inputs, dynamic_shapes))
    raise ModelFormatError(f"cannot load a PyTorch model from an object of type {type(model).__name__}")


def _file(path: Path) -> Any:
    """Returns the program stored at `path`. Raises ModelFormatError if there is none."""
    if not path.is_file():
        raise ModelFormatError(f"model file {str(path)!r} cannot be read: it is no regular file; check the path")
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (OSError, zipfile.BadZipFile, NotImplementedError, ValueError) as error:
        raise ModelFormatError(
            f"model file {str(path)!r} is no TorchScript or exported program: {error}; "
            "save with torch.jit.save or torch.export.save"
        ) from None
    try:
        if any("/code/" in name for name in names):
            return torch.jit.load(str(path), map_location="cpu").eval()
        if path.suffix == ".pt2" or any("/models/" in name or name.startswith("models/") for name in names):
            return torch.export.load(path)
    except Exception as error:  # damaged bytes have PyTorch raise anything, IndexError and MemoryError too
        raise ModelFormatError(
            f"model file {str(path)!r} cannot be read by PyTorch: {type(error).__name__}: {error}"
        ) from error
    raise ModelFormatError(
        f"model file {str(path)!r} holds pickled objects (a state_dict or a whole module), which treadle does not "
        "unpickle: that runs code. Load it into its module, then pass the module to treadle.Session, "
        "or save it with torch.jit.save"
    )
