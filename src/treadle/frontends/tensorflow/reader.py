"""Reads frozen graphs from bytes, files, text form and messages."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from google.protobuf import text_format  # type: ignore[import-untyped]
from google.protobuf.message import DecodeError, Message  # type: ignore[import-untyped]

from treadle.errors import ModelFormatError
from treadle.frontends.files import check_size, read_file
from treadle.frontends.tensorflow.messages import GraphDef, SavedModel

WANTED = "a frozen TensorFlow graph (GraphDef)"
TOO_LARGE = "TensorFlow cannot read it either; split it, or export it to ONNX with external data"


def read(model: Any) -> tuple[Any, str]:
    """Return `model` as a parsed GraphDef, and its name for messages.

    `model` is a path, bytes, or a GraphDef of treadle or TensorFlow. A file may hold the binary or the text form
    (pbtxt). Raises ModelFormatError for other content.
    """
    if isinstance(model, Message):
        title = "the GraphDef"
        return model if isinstance(model, GraphDef) else parse(model.SerializeToString(), title), title
    if isinstance(model, bytes | bytearray | memoryview):
        title = "the model given as bytes"
        return parse(bytes(model), title), title
    path = os.fspath(model)
    title = f"the model {Path(os.fsdecode(path)).name!r}"
    if os.path.isdir(path):  # noqa: PTH112 - the path may be bytes
        raise ModelFormatError(f"{title} is a folder without the file saved_model.pb; wanted a SavedModel, or {WANTED}")
    return parse(read_file(path, title, WANTED, TOO_LARGE), title), title


def parse(content: bytes, title: str) -> Any:
    """Return the GraphDef in `content`, in binary or text form. Raises ModelFormatError."""
    check_size(len(content), title, WANTED, TOO_LARGE)
    if not content:
        raise ModelFormatError(f"{title} is empty; wanted {WANTED}")
    graph = GraphDef()
    try:
        graph.ParseFromString(content)
    except DecodeError:
        graph = _parse_text(content)
    if graph is not None and graph.node:
        return graph
    if _is_saved_model(content):
        raise ModelFormatError(f"{title} is a SavedModel, whose variables lie in other files; load its folder")
    if graph is None:
        raise ModelFormatError(
            f"{title} is no frozen TensorFlow graph: its {len(content)} bytes are not a protobuf message of this kind, "
            "or were cut short; export or download it again"
        )
    raise ModelFormatError(f"{title} is no frozen TensorFlow graph: it has no nodes; export or download it again")


def _parse_text(content: bytes) -> Any:
    """Return the GraphDef in text form in `content`, or None."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        return None
    graph = GraphDef()
    try:
        text_format.Parse(text, graph, allow_unknown_field=True)
    except (text_format.ParseError, ValueError, RecursionError):
        return None
    return graph


def _is_saved_model(content: bytes) -> bool:
    model = SavedModel()
    try:
        model.ParseFromString(content)
    except DecodeError:
        return False
    return any(meta.graph_def.node for meta in model.meta_graphs)
