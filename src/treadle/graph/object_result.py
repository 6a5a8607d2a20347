"""Results of a model that are no tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from treadle.immutable import immutable


@immutable
class ObjectResult:
    """A result that is no tensor but a list, a dict or None: it is made from outputs after each run.

    Attributes:
        name: Its name.
        type: Its type as ONNX's operator schemas write it, such as "seq(map(int64,tensor(float)))".
        reads: The names of the outputs that it is made from.
        make: Makes it from their arrays, in this order.
    """

    name: str
    type: str
    reads: tuple[str, ...]
    make: Callable[[Sequence[np.ndarray[Any, Any]]], Any]
