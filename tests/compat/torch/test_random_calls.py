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


def difference(found: Any, wanted: Any) -> str:
    """Returns how a result differs from PyTorch's, or an empty string."""
    if not isinstance(wanted, np.ndarray):
        return "" if type(found) is type(wanted) and found == wanted else f"{found!r} for {wanted!r}"
    if found.dtype != wanted.dtype or found.shape != wanted.shape:
        return f"{found.dtype}{found.shape} for {wanted.dtype}{wanted.shape}"
    if wanted.dtype.kind != "f":
        return "" if np.array_equal(found, wanted) else f"{found!r} for {wanted!r}"
    with np.errstate(all="ignore"):
        there = np.isfinite(wanted)
        size = np.abs(wanted) + 0.02 * min(np.max(np.abs(wanted[there]), initial=0), 1e3) + 0.03
        near = np.where(there, np.abs(found - wanted) <= TOLERANCES[wanted.dtype.itemsize] * size, found == wanted)
    return "" if np.all(near | (np.isnan(found) & np.isnan(wanted))) else f"{found!r} for {wanted!r}"


def check(name: str, seed: int) -> str:
    """Returns how treadle differs from PyTorch on the call of this number, or an empty string."""
    draw = CALLS[name](np.random.default_rng([zlib.crc32(name.encode()), seed]))
    wanted, found = outcome(pytorch, pytorch.nn.functional, draw), outcome(torch, F, draw)
    told = f"{name} {seed} {draw.told} {[(str(each.dtype), each.shape) for each in draw.arrays]}"
    if isinstance(found, Exception):
        if isinstance(wanted, list) or isinstance(found, InternalError) or str(found) in PYTHONS_OWN:
            return f"{told}: {found!r} for {wanted!r}"
        return ""
    if isinstance(wanted, Exception):
        return f"{told}: {found!r} for {wanted!r}"
    if len(found) != len(wanted):
        return f"{told}: {len(found)} results for {len(wanted)}"
    differences = [difference(f, w) for f, w in zip(found, wanted, strict=True)]
    return f"{told}: {differences}" if any(differences) else ""


@pytest.mark.parametrize("name", CALLS)
def test_a_random_call_agrees_with_pytorch(name: str) -> None:
    """
    Shapes, dtypes and values are equal, or both raise; no error comes from Python itself or is internal.
    """
    assert [told for seed in range(ROUNDS) if (told := check(name, seed))] == []
