"""PyTorch's names, and TorchScript's fork and wait, on treadle: `import treadle.compat.torch as torch`.

Tensors are NumPy arrays and functions run at once. Scripts (`torch.jit.script`) become compiled graphs in which
forked calls run concurrently with the code that follows them, on treadle's one team of threads. PyTorch is not
needed.
"""

import sys as _sys
from contextlib import ContextDecorator
from types import SimpleNamespace
from typing import Any

from treadle import __version__ as _version
from treadle.compat.torch import backends as backends
from treadle.compat.torch import futures as futures
from treadle.compat.torch import jit as jit
from treadle.compat.torch import linalg as linalg
from treadle.compat.torch import nn as nn
from treadle.compat.torch import serialization as serialization
from treadle.compat.torch import threads as _threads
from treadle.compat.torch.checkpoints.loading import load as load
from treadle.compat.torch.checkpoints.saving import save as save
from treadle.compat.torch.devices import device as device
from treadle.compat.torch.dtypes import NAMES as _DTYPES
from treadle.compat.torch.dtypes import dtype as dtype
from treadle.compat.torch.functions.promotion import common_type as _common_type
from treadle.compat.torch.jit.compilation_unit import NAMES as _NAMES_IN_UNITS
from treadle.compat.torch.legacy import LEGACY_TENSORS as _LEGACY_TENSORS
from treadle.compat.torch.missing_names import missing_name_error as _missing_name_error
from treadle.compat.torch.sizes import Size as Size
from treadle.compat.torch.table import FUNCTIONS as _FUNCTIONS
from treadle.compat.torch.tensor import Tensor as Tensor
from treadle.compat.torch.threads import get_num_interop_threads as get_num_interop_threads
from treadle.compat.torch.threads import get_num_threads as get_num_threads
from treadle.compat.torch.threads import set_num_interop_threads as set_num_interop_threads
from treadle.compat.torch.threads import set_num_threads as set_num_threads

__config__ = SimpleNamespace(parallel_info=_threads.parallel_info, show=_threads.show)
inf, nan, pi, e = float("inf"), float("nan"), 3.141592653589793, 2.718281828459045


def is_tensor(obj: Any) -> bool:
    """Returns True if `obj` is a Tensor."""
    return isinstance(obj, Tensor)


def numel(input: Tensor) -> int:
    """Returns the number of elements."""
    return input.numel()


def is_floating_point(input: Tensor) -> bool:
    """Returns True if the dtype is a floating-point one."""
    return input.is_floating_point()


def result_type(tensor1: Any, tensor2: Any) -> dtype:
    """Returns the dtype of tensor1 + tensor2."""
    return _common_type(tensor1, tensor2)


def get_default_dtype() -> dtype:
    """Returns float32, the dtype of Python floats."""
    return _DTYPES["float32"]


def set_default_dtype(d: dtype) -> None:
    """Accepts float32, which is the dtype of Python floats here.

    Raises:
        NotImplementedError: Another dtype.
    """
    if d is not _DTYPES["float32"]:
        raise NotImplementedError(f"set_default_dtype({d}): Python floats are float32 here; pass dtype={d} instead")


def set_flush_denormal(mode: bool) -> bool:
    """Returns whether denormal numbers are treated as asked for: they are kept, so False is what can be had."""
    return not mode


def is_grad_enabled() -> bool:
    """Returns False: treadle has no gradients."""
    return False


class no_grad(ContextDecorator):  # noqa: N801 - PyTorch's name
    """A context manager and decorator without effect: treadle has no gradients to switch off."""

    def __init__(self, mode: bool = True) -> None:
        self.mode = mode

    def __enter__(self) -> None:
        return None

    def __exit__(self, *error: object) -> None:
        return None

    def __call__(self, function: Any) -> Any:
        """Returns the function itself, so that scripts can read its source."""
        return function


inference_mode = set_grad_enabled = no_grad
cuda = SimpleNamespace(is_available=lambda: False, device_count=lambda: 0)
__version__ = _version
globals().update(_FUNCTIONS)
globals().update(_DTYPES)
globals().update(_LEGACY_TENSORS)
_NAMES_IN_UNITS["torch"] = _sys.modules[__name__]
__all__ = sorted({  # noqa: PLE0605
    *_FUNCTIONS, *_DTYPES, *_LEGACY_TENSORS, "__version__", "cuda", "futures", "get_default_dtype",
    "is_floating_point", "is_grad_enabled", "result_type", "set_grad_enabled", "Size", "Tensor", "__config__",
    "backends", "device", "dtype", "e", "get_num_interop_threads", "get_num_threads", "inf", "inference_mode",
    "is_tensor", "jit", "linalg", "load", "nan", "nn", "no_grad", "numel", "pi", "save", "serialization",
    "set_default_dtype", "set_flush_denormal", "set_num_interop_threads", "set_num_threads",
})  # fmt: skip


def __dir__() -> list[str]:
    return list(__all__)


def __getattr__(name: str) -> Any:
    raise _missing_name_error("torch", name, __all__)
