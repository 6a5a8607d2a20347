"""Which functions that a script calls are pure: same result for the same arguments, and no side effect."""

from __future__ import annotations

import builtins
import math
import sys
import types
from collections.abc import Callable
from functools import partial
from typing import Any

from treadle.compat.torch.nn.module import Module
from treadle.compat.torch.sizes import Size
from treadle.compat.torch.table import FUNCTIONAL, FUNCTIONS
from treadle.compat.torch.tensor import METHODS, Tensor

LIBRARIES = {"treadle", "numpy", "builtins", *sys.stdlib_module_names} - {"__main__"}
"""Packages whose functions are called as they are, not scripted."""

_BUILTINS = (
    "abs all any bool dict divmod enumerate float frozenset int isinstance issubclass len list max min pow range "
    "reversed round set slice sorted str sum tuple zip getattr hasattr chr ord"
)
_MADE = frozenset({
    "annotate", "fork", "get_default_dtype", "inference_mode", "is_floating_point", "is_grad_enabled", "is_scripting",
    "is_tensor", "no_grad", "numel", "result_type", "wait",
})  # fmt: skip
"""Functions of treadle outside the tables that are pure."""

_HELD = (list, dict, set, frozenset, tuple, str, int, float, bytes)
"""Types whose methods change nothing but their object."""

_TENSOR = frozenset(id(function) for table in (FUNCTIONS, FUNCTIONAL, METHODS) for function in table.values())
_PYTHON = frozenset(id(getattr(builtins, name)) for name in _BUILTINS.split())


def is_library(module: str | None) -> bool:
    """Returns True if a module belongs to Python, NumPy or treadle, whose attributes do not change."""
    return (module or "").split(".")[0] in LIBRARIES


def is_pure(function: Callable[..., Any], kwargs: dict[str, Any]) -> bool:
    """Returns True if a replay may omit a call of `function`, which is not a script.

    Reading elements of tensors and drawing random numbers are detected where they happen.
    """
    if any(map(callable, kwargs.values())):
        return False  # sorted(key=f) calls f, which is not checked
    if isinstance(function, partial):
        function = function.func
    if id(function) in _TENSOR or id(function) in _PYTHON:
        return True
    if isinstance(function, Module):
        return is_library(type(function).__module__)
    if isinstance(function, type):
        fault = issubclass(function, BaseException) and is_library(function.__module__)
        return fault or function is Size or (issubclass(function, tuple) and hasattr(function, "_fields"))
    if isinstance(function, types.BuiltinFunctionType | types.MethodType):
        return (
            function.__module__ == math.__name__
            or isinstance(function.__self__, Tensor)
            or type(function.__self__) in _HELD
        )
    return getattr(function, "__name__", "") in _MADE and is_library(getattr(function, "__module__", ""))
