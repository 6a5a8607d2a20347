"""The ONNX front end: from an ONNX model to a Graph.

`onnx` itself is imported when the first model is loaded, not before.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from treadle.graph.formed_model import FormedModel
from treadle.graph.graph import Graph

if TYPE_CHECKING:
    import onnx


def load(
    model: str | os.PathLike[str] | bytes | onnx.ModelProto, *, strict_dims: bool = True, round_low_bits: bool = False
) -> Graph | FormedModel:
    """The Graph of an ONNX model: a path, the bytes of a file, or a ModelProto.

    If inputs are no tensors, it is what makes a Graph for each form of these. The options are those of ImportOptions.

    Tensors stored outside the file are read only for a path, and only inside the model's folder.
    Raises ModelFormatError for what is no readable ONNX file, and ModelError or UnsupportedModelError,
    listing every fault, for a model that cannot be used.
    """
    from treadle.frontends.onnx.import_options import ImportOptions
    from treadle.frontends.onnx.importer import import_model
    from treadle.frontends.onnx.reader import read

    return import_model(read(model), ImportOptions(strict_dims, round_low_bits))
