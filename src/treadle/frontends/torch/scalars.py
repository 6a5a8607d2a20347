"""Python numbers read from tensors."""

from __future__ import annotations

from treadle.frontends.torch.build import Builder, Number
from treadle.graph.value import Value


def item(b: Builder, x: Value) -> bool | int | float | Number:
    """Returns the only element of `x`: a Python number if it is known, else a Number known at run time."""
    if x.data is not None:
        found: bool | int | float = x.data.reshape(()).item()
        return found
    return Number(x if x.shape == () else b.reshape(x, []))
