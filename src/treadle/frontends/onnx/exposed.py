"""A model that returns every value that its nodes compute."""

import os
from typing import NamedTuple

import onnx

from treadle.frontends.onnx.reader import read


class Exposed(NamedTuple):
    """A model as bytes, and the folder of its external data."""

    model: bytes
    folder: str


def expose(path: str | os.PathLike[str]) -> Exposed:
    """Return the model at `path` with an output for every value that a node of its graph computes.

    Values inside the bodies of branches and loops stay inside. Raises ModelFormatError if the file is no readable
    model.
    """
    source = read(path)
    proto = onnx.ModelProto()
    proto.CopyFrom(source.proto)
    for tensor, payload in zip(proto.graph.initializer, source.payloads, strict=False):
        if payload is not None:
            tensor.raw_data = bytes(payload)
    outputs = {value.name for value in proto.graph.output}
    for node in proto.graph.node:
        for name in node.output:
            if name and name not in outputs:
                outputs.add(name)
                proto.graph.output.add(name=name)
    return Exposed(proto.SerializeToString(), source.external.folder or "")
