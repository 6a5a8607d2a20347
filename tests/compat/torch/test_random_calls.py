"""Random calls give PyTorch's results or errors, if PyTorch is installed."""

from __future__ import annotations

import warnings
import zlib
from typing import Any

import numpy as np
import pytest

import treadle.compat.torch as torch
import treadle.compat.torch.nn.functional as F  # noqa: N812
from tests.compat.torch.random_calls import CALLS
from tests.compat.torch.random_operands import Array
from treadle.errors import InternalError, TreadleError

pytorch = pytest.importorskip("torch", reason="PyTorch is not installed")

ROUNDS = 3
REFUSALS = (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError, OverflowError, ZeroDivisionError)
PYTHONS_OWN = ("tuple index out of range", "list index out of range")
TOLERANCES = {2: 2e-3, 4: 3e-5, 8: 1e-11}


def flat(result: Any) -> list[Any]:
    """Returns the numbers and arrays in a result."""
    if isinstance(result, tuple | list):
        return [part for each in result for part in flat(each)]
    return [np.asarray(result.numpy()) if hasattr(result, "numpy") else result]


def tensor(module: Any, array: Array) -> Any:
    if array.ndim:
        return module.from_numpy(array.copy())
    return module.tensor(array.item(), dtype=getattr(module, str(array.dtype)))


def outcome(module: Any, functional: Any, draw: Any) -> list[Any] | Exception:
    """Returns the call's result, or the error that it raises."""
    try:
        with warnings.catch_warnings(action="ignore"):
            return flat(draw.run(module, functional, *(tensor(module, each) for each in draw.arrays)))
    except (*REFUSALS, TreadleError) as error:
        return error


def difference(found: Any, expected: Any) -> str:
    """Returns how a result differs from PyTorch's, or an empty string."""
    if not isinstance(expected, np.ndarray):
        return "" if type(found) is type(expected) and found == expected else f"{found!r} for {expected!r}"
    if found.dtype != expected.dtype or found.shape != expected.shape:
        return f"{found.dtype}{found.shape} for {expected.dtype}{expected.shape}"
    if expected.dtype.kind != "f":
        return "" if np.array_equal(found, expected) else f"{found!r} for {expected!r}"
    with np.errstate(all="ignore"):
        there = np.isfinite(expected)
        size = np.abs(expected) + 0.02 * min(np.max(np.abs(expected[there]), initial=0), 1e3) + 0.03
        near = np.where(
            there, np.abs(found - expected) <= TOLERANCES[expected.dtype.itemsize] * size, found == expected
        )
    return "" if np.all(near | (np.isnan(found) & np.isnan(expected))) else f"{found!r} for {expected!r}"


def check(name: str, seed: int) -> str:
    """Returns how treadle differs from PyTorch on the call of this number, or an empty string."""
    draw = CALLS[name](np.random.default_rng([zlib.crc32(name.encode()), seed]))
    expected, found = outcome(pytorch, pytorch.nn.functional, draw), outcome(torch, F, draw)
    description = f"{name} {seed} {draw.description} {[(str(each.dtype), each.shape) for each in draw.arrays]}"
    if isinstance(found, Exception):
        if isinstance(expected, list) or isinstance(found, InternalError) or str(found) in PYTHONS_OWN:
            return f"{description}: {found!r} for {expected!r}"
        return ""
    if isinstance(expected, Exception):
        return f"{description}: {found!r} for {expected!r}"
    if len(found) != len(expected):
        return f"{description}: {len(found)} results for {len(expected)}"
    differences = [difference(f, w) for f, w in zip(found, expected, strict=True)]
    return f"{description}: {differences}" if any(differences) else ""


@pytest.mark.parametrize("name", CALLS)
def test_a_random_call_agrees_with_pytorch(name: str) -> None:
    """
    Shapes, dtypes and values are equal, or both raise; no error comes from Python itself or is internal.
    """
    assert [description for seed in range(ROUNDS) if (description := check(name, seed))] == []
