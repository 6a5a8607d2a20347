"""Optionals for the `onnx` package's reference implementation, which wraps the content of those that nodes make.

It does not wrap that of optionals which a model is given, and takes both alike. Here an optional is its content, or
NOTHING: a result of a node must not be None.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from onnx.reference.op_run import OpRun


class Nothing(list[Any]):
    """An optional without a value."""


def is_nothing(value: object) -> bool:
    """Whether a value of the reference implementation is an optional without a value."""
    return value is None or isinstance(value, Nothing)


@cache
def reference_optionals() -> list[type[OpRun]]:
    """Return Optional, OptionalGetElement and OptionalHasElement of the specification."""
    from onnx.reference.op_run import OpRun

    class Optional(OpRun):
        op_domain = ""

        def _run(self, x: Any = None, **_: Any) -> tuple[Any, ...]:  # the attribute `type` does not matter
            return (Nothing() if x is None else x,)

    class OptionalGetElement(OpRun):
        op_domain = ""

        def _run(self, x: Any) -> tuple[Any, ...]:
            if is_nothing(x):
                raise ValueError("the optional has no value")
            return (x,)

    class OptionalHasElement(OpRun):
        op_domain = ""

        def _run(self, x: Any = None) -> tuple[Any, ...]:
            return (np.array(not is_nothing(x)),)

    return [Optional, OptionalGetElement, OptionalHasElement]
