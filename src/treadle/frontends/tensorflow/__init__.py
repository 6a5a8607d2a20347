"""The TensorFlow front end: the meaning of TensorFlow's ops as core nodes, and an importer of frozen graphs and
SavedModels.

`table` lists the ops as users write them, `nodes` those of files; the facade `compat.tensorflow` uses the same rules.
protobuf is imported when the first graph is loaded.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from treadle.errors import InputError
from treadle.frontends.files import folder_of
from treadle.graph.graph import Graph
from treadle.graph.template import Template


def load(
    model: str | os.PathLike[str] | bytes | Any,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    signature: str | None = None,
) -> Graph | Template:
    """Return what a session runs of a frozen TensorFlow graph, or of a signature of a SavedModel.

    `model` is a path (.pb, .pbtxt, or the folder of a SavedModel), the bytes of a file, or a GraphDef. `inputs` and
    `outputs` name tensors ("name", "name:1"); by default the inputs are the placeholders that the outputs depend on,
    and the outputs the tensors that no node reads. Those of a SavedModel are those of its signature `signature`
    ("serving_default"), by their names there.
    A graph with unknown sizes becomes a Template. Raises ModelFormatError for anything but a readable GraphDef or
    SavedModel, InputError for an option that does not fit, and ModelError or UnsupportedModelError with all faults of a
    graph that cannot be used.
    """
    from treadle.frontends.tensorflow.importer import import_graph, import_saved
    from treadle.frontends.tensorflow.reader import read
    from treadle.frontends.tensorflow.saved_model import read_saved_model

    folder = folder_of(model)
    if folder is not None:
        if inputs is not None or outputs is not None:
            raise InputError("inputs= and outputs= belong to frozen graphs; choose a SavedModel's with signature=")
        return import_saved(read_saved_model(folder, signature))
    if signature is not None:
        raise InputError("signature= belongs to SavedModels, which are folders; leave it out for a frozen graph")
    message, title = read(model)
    return import_graph(message, title, inputs, outputs)
