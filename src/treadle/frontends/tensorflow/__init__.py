"""The TensorFlow front end: the meaning of TensorFlow's ops as core nodes, and an importer of frozen graphs.

`table` lists the ops as users write them, `nodes` those of files; the facade `compat.tensorflow` uses the same rules.
protobuf is imported when the first graph is loaded.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from treadle.graph.graph import Graph
from treadle.graph.template import Template


def load(
    model: str | os.PathLike[str] | bytes | Any,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
) -> Graph | Template:
    """Return what a session runs of a frozen TensorFlow graph.

    `model` is a path (.pb or .pbtxt), the bytes of a file, or a GraphDef. `inputs` and `outputs` name tensors ("name",
    "name:1"); by default the inputs are the placeholders that the outputs depend on, and the outputs the tensors that
    no node reads. A graph with unknown sizes becomes a Template. Raises ModelFormatError for anything but a readable
    GraphDef, and ModelError or UnsupportedModelError with all faults of a graph that cannot be used.
    """
    from treadle.frontends.tensorflow.importer import import_graph
    from treadle.frontends.tensorflow.reader import read

    message, title = read(model)
    return import_graph(message, title, inputs, outputs)
