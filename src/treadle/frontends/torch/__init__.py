"""The PyTorch front end: from modules, exported programs and TorchScript files to Graphs.

PyTorch is imported when the first model is loaded, not before, and needed for nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from treadle.errors import ModelFormatError
from treadle.graph.graph import Graph
from treadle.graph.template import Template

if TYPE_CHECKING:
    import torch


@contextmanager
def needs_pytorch(missing: Exception) -> Iterator[None]:
    """Raises `missing` where an import finds no PyTorch."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != "torch":
            raise
        raise missing from None


def load(
    model: str | os.PathLike[str] | torch.nn.Module | torch.export.ExportedProgram | torch.jit.ScriptFunction[Any, Any],
    example_inputs: Any = None,
    dynamic_shapes: Any = None,
) -> Graph | Template:
    """Returns the graph of a PyTorch model.

    `model` is

    - a path: a TorchScript file (torch.jit.save), or a .pt2 file (torch.export.save);
    - a torch.nn.Module: exported with `example_inputs`, its positional arguments as a tuple, and `dynamic_shapes`, as
      torch.export.export takes them;
    - a torch.export.ExportedProgram, or a scripted or traced module or function.

    Parameters and buffers become constants that share the memory of the tensors. A program without symbols becomes a
    Graph. One with symbols becomes a Template, and so does TorchScript, which declares no shapes. Forks of a script
    become parts of the graph that do not depend on the code up to their wait. Files with pickled modules or state
    dicts are refused: reading them runs code.

    Raises ModelFormatError if the model cannot be read or PyTorch is missing; UnsupportedModelError or ModelError,
    which list every unsupported op and its place in the source; InputError if example inputs are missing or do not
    fit.
    """
    missing = ModelFormatError(
        "PyTorch models are read with PyTorch, which is not installed; install torch, "
        "or export the model to ONNX where it is"
    )
    with needs_pytorch(missing):
        from treadle.frontends.torch.reader import read
    return read(model, example_inputs, dynamic_shapes)
