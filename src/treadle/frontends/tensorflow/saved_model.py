"""Reads SavedModel folders: a graph, one of its signatures, and where its variables' values lie."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from treadle.errors import InputError, ModelFormatError, UnsupportedModelError
from treadle.frontends.files import SAVED_MODEL, VARIABLES, read_file
from treadle.frontends.tensorflow.messages import SavedModel

WANTED = "a SavedModel"
ADVICE = "save its constants as variables"
TAG = "serve"
DEFAULT = "serving_default"
_INITIALIZER = "__saved_model_init_op"


@dataclass(frozen=True, slots=True)
class SavedGraph:
    """The graph of a SavedModel for serving.

    Attributes:
        graph: The GraphDef.
        title: The model's name for messages.
        inputs: The tensors of the graph that the signature takes, by the names of its inputs.
        outputs: Those that it returns, by the names of its outputs.
        checkpoint: How the files of its checkpoint begin.
    """

    graph: Any
    title: str
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    checkpoint: Path


def read_saved_model(folder: Path, signature: str | None) -> SavedGraph:
    """Return what the signature called `signature` (None: "serving_default") of the SavedModel in `folder` computes.

    Raises ModelFormatError for damaged or missing files, InputError for a signature that it does not have.
    """
    title = f"the SavedModel {folder.name!r}"
    content = read_file(str(folder / SAVED_MODEL), f"{title}: {SAVED_MODEL}", WANTED, ADVICE)
    model = SavedModel()
    try:
        model.ParseFromString(content)
    except DecodeError:
        raise ModelFormatError(f"{title}: {SAVED_MODEL} is damaged; save or download it again") from None
    served = [meta for meta in model.meta_graphs if TAG in meta.meta_info_def.tags]
    if not served:
        tags = [sorted(meta.meta_info_def.tags) for meta in model.meta_graphs]
        raise ModelFormatError(f"{title} has no graph with the tag {TAG!r}; the tags of its graphs are {tags}")
    signatures = served[0].signature_def
    names = sorted(name for name in signatures if name != _INITIALIZER)
    name = DEFAULT if signature is None else signature
    if name not in names:
        advice = f"choose one of {names} with signature=" if names else "it has none: save it with signatures="
        raise InputError(f"{title} has no signature {name!r}; {advice}")
    chosen = signatures[name]
    return SavedGraph(
        served[0].graph_def,
        title,
        {key: _tensor(chosen.inputs[key], f"{title}: input {key!r}") for key in sorted(chosen.inputs)},
        {key: _tensor(chosen.outputs[key], f"{title}: output {key!r}") for key in sorted(chosen.outputs)},
        folder / VARIABLES,
    )


def _tensor(info: Any, title: str) -> str:
    """Return the name of the tensor that `info` describes."""
    if not info.name:
        fault = f"{title} is a sparse or composite tensor; wanted a dense one"
        raise UnsupportedModelError(fault, [fault])
    return str(info.name)
