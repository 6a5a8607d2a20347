"""What a model says of itself, in the terms of ONNX: the types of its inputs and outputs, and its metadata."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from treadle.records import dataclass


@dataclass(frozen=True, slots=True)
class Declared:
    """An input or output as a model declares it.

    Attributes:
        name: Its name.
        type: Its type as operator schemas write it, such as "tensor(float)" or "seq(tensor(int64))"; "" if not stated.
        shape: A size, a name, or None for each axis; None if even the rank is unknown, or if it is no tensor.
        denotations: The denotation of each axis, "" for none.
    """

    name: str
    type: str
    shape: tuple[int | str | None, ...] | None
    denotations: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Description:
    """What a model says of itself.

    Attributes:
        inputs: The inputs that a run needs.
        optional: The inputs that have an initialiser, which a run may override.
        outputs: The outputs.
        producer: The name of the program that wrote the model.
        graph_name: The name of the graph.
        domain: The model's namespace.
        text: The model's documentation.
        graph_text: The graph's documentation.
        version: The model's version; None if it has none.
        metadata: The model's metadata properties.
    """

    inputs: tuple[Declared, ...]
    optional: tuple[Declared, ...]
    outputs: tuple[Declared, ...]
    producer: str
    graph_name: str
    domain: str
    text: str
    graph_text: str
    version: int | None
    metadata: dict[str, str]

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Description:
        """Return the description that `record` is the record of."""
        sides = {side: tuple(map(_declared, record[side])) for side in ("inputs", "optional", "outputs")}
        return cls(**{**record, **sides})

    @property
    def record(self) -> dict[str, Any]:
        """The same as JSON has it."""
        return asdict(self)


def _declared(record: Mapping[str, Any]) -> Declared:
    shape = record["shape"]
    return Declared(
        record["name"], record["type"], None if shape is None else tuple(shape), tuple(record["denotations"])
    )
