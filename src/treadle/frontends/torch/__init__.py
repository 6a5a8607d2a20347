"""The PyTorch front end: from modules, exported programs and TorchScript files to Graphs.

PyTorch is imported when the first model is loaded, not before, and needed for nothing else.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from treadle.errors import ModelFormatError
from treadle.graph.graph import Graph
from treadle.graph.template import Template

if TYPE_CHECKING:
    import torch


def load(
    model: str | os.PathLike[str] | torch.nn.Module | torch.export.ExportedProgram | torch.jit.ScriptFunction[Any, Any],
    example_inputs: Any = None,
    dynamic_shapes: Any = None,
) -> Graph | Template:
    """What to run of a PyTorch model.

    - a path: a TorchScript file (torch.jit.save), or a .pt2 file (torch.export.save);
    - a torch.nn.Module: exported with `example_inputs`, its positional arguments as a tuple, and `dynamic_shapes` as
      torch.export.export takes them;
    - a torch.export.ExportedProgram, a scripted or traced module or function.

    Parameters and buffers become constants that share the memory of the tensors. A program without symbols becomes a
    Graph; one with symbols, and TorchScript, which declares no shapes, a Template. Forks of a script become parts of
    the graph without a path to the code up to their wait. Files that hold pickled modules or state dicts are refused:
    reading them runs code.

    Raises ModelFormatError for what cannot be read or PyTorch missing, UnsupportedModelError or ModelError that list
    every op treadle cannot run and where it stands in the source, InputError for missing or unfitting example inputs.
    """
    try:
        from treadle.frontends.torch.reader import read
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != "torch":
            raise
        raise ModelFormatError(
            "PyTorch models are read with PyTorch, which is not installed; install torch, "
            "or export the model to ONNX where it is"
        ) from None
    return read(model, example_inputs, dynamic_shapes)
