"""Runs modules and scripts through treadle and compares with eager PyTorch."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

import treadle


class Module(torch.nn.Module):
    """A module that calls `function`."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> Any:
        return self.function(*args)


def flat(result: Any) -> list[torch.Tensor]:
    if isinstance(result, dict):
        return [leaf for entry in result.values() for leaf in flat(entry)]
    if isinstance(result, tuple | list):
        return [leaf for entry in result for leaf in flat(entry)]
    return [torch.as_tensor(result)]


def run(session: treadle.Session, args: Sequence[torch.Tensor]) -> list[np.ndarray[Any, Any]]:
    names = [tensor.name for tensor in session.inputs]
    return list(session.run({name: arg.detach().numpy() for name, arg in zip(names, args, strict=True)}).values())


def assert_same(got: Sequence[np.ndarray[Any, Any]], expected: Any, tolerance: float = 1e-5) -> None:
    """Shapes, dtypes and elements agree; `tolerance` is relative to the largest element, at least 1."""
    leaves = flat(expected)
    assert len(got) == len(leaves)
    for one, other in zip(got, leaves, strict=True):
        array = other.detach().numpy()
        assert one.shape == array.shape
        assert one.dtype == array.dtype
        finite = array[np.isfinite(array)] if array.dtype.kind == "f" else array
        scale = max(1.0, float(np.abs(finite).max())) if finite.size else 1.0
        half = array.dtype == np.float16
        np.testing.assert_allclose(one, array, rtol=0, atol=scale * (1e-2 if half else tolerance))


def traced(function: Callable[..., Any], args: Sequence[torch.Tensor]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.trace(Module(function).eval(), tuple(args), check_trace=False)
