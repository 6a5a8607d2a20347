"""What computes the values of a model: treadle, the reference implementation of its ops, and onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import treadle
from treadle.compat.onnxruntime import peer
from treadle.errors import InputError, RunError
from treadle.frontends.onnx.exposed import expose
from treadle.graph.graph import Graph
from treadle.ops.evaluate import evaluate_node
from treadle.passes.specialize import copy_graph

Array = np.ndarray[Any, Any]
Values = dict[str, Array]


def compiled(graph: Graph, names: Sequence[str], feed: Mapping[str, Array], **options: Any) -> Values:
    """Return the values of `graph` with these names, computed by treadle from `feed`.

    Only what they need is compiled; values that are not among them may vanish where ops are fused. `options` are those
    of Session.
    """
    part = copy_graph(graph)
    known = {value.name: value for node in part.nodes for value in node.outputs}
    known.update((value.name, value) for value in (*part.inputs, *part.outputs))
    part.outputs = [known[name] for name in names]
    return treadle.Session(part, **options).run(feed)


def reference(graph: Graph, feed: Mapping[str, Array]) -> Values:
    """Return every value of `graph`, computed by the reference implementations of its ops in NumPy."""
    known = {value.name: np.asarray(feed[value.name]) for value in graph.inputs}
    for node in graph.nodes:
        evaluate_node(node, known)
    known.update((value.name, value.data) for value in graph.outputs if value.data is not None)
    return known


def onnxruntime(model: str, feed: Mapping[str, Array]) -> Values:
    """Return every value of the ONNX file `model` that is a tensor, computed by onnxruntime.

    Raises InputError if it is not installed, RunError if it cannot run the model.
    """
    module = peer.load()
    if module is None:
        raise InputError("--against onnxruntime: it is not installed; pip install onnxruntime, or use reference")
    exposed = expose(model)
    options = module.SessionOptions()
    options.graph_optimization_level = module.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", exposed.folder or ".")
    try:
        session = module.InferenceSession(exposed.model, options, providers=["CPUExecutionProvider"])
        results = session.run(None, dict(feed))
    except Exception as error:  # noqa: BLE001 - its exceptions have no other common base
        raise RunError(f"onnxruntime cannot run this model: {error}") from None
    names = [output.name for output in session.get_outputs()]
    return {name: value for name, value in zip(names, results, strict=True) if isinstance(value, np.ndarray)}
