"""Models some of whose inputs are no tensors: each form of these inputs has a graph of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from treadle.graph.graph import Graph
from treadle.graph.value import Value
from treadle.immutable import immutable

InputForm = int | str | None
"""What a graph depends on of such an input: the length of a sequence, "tensor" for one tensor, None for nothing."""


@immutable
class ObjectInput:
    """An input that is a sequence or an optional, or a tensor whose elements no core value has.

    Attributes:
        name: Its name.
        type: Its type as ONNX's operator schemas write it, such as "seq(tensor(float))".
        take: Returns the form of a given object, and the arrays for the inputs that stand for it in the graph of this
            form. Raises InputError if the object does not fit.
    """

    name: str
    type: str
    take: Callable[[Any], tuple[InputForm, list[np.ndarray[Any, Any]]]]


@immutable
class FormedModel:
    """A model that becomes a Graph for each combination of the forms of its inputs that are no tensors.

    Attributes:
        name: Its name.
        inputs: Its inputs, in order.
        outputs: Name, element type and shape of each output that is a tensor; name and type of each other.
        build: Returns the graph for one form an ObjectInput, in their order. The inputs of the graph are those of the
            model, in order, with as many values in place of an ObjectInput as `take` gives arrays. Raises ModelError.
    """

    name: str
    inputs: tuple[Value | ObjectInput, ...]
    outputs: tuple[Value | tuple[str, str], ...]
    build: Callable[[Sequence[InputForm]], Graph]
