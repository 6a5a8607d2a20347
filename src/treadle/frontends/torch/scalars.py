"""Python numbers taken out of tensors."""

from __future__ import annotations

from treadle.frontends.torch.build import Builder, Number
from treadle.graph.value import Value


def item(b: Builder, x: Value) -> bool | int | float | Number:
    """The only element of `x`: a Python number where it is known already, else one that is known when the graph runs."""
    if x.data is not None:
        found: bool | int | float = x.data.reshape(()).item()
        return found
    return Number(x if x.shape == () else b.reshape(x, []))
