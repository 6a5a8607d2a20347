"""PyTorch's names, and TorchScript's fork and wait, on weft: `import weft.compat.torch as torch`.

Tensors are NumPy arrays; functions run at once; scripts (`torch.jit.script`) become compiled graphs in which forked calls
run beside the code that follows them, all on weft's one team of threads. PyTorch is not needed.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from weft.compat.torch import backends as backends
from weft.compat.torch import jit as jit
from weft.compat.torch import nn as nn
from weft.compat.torch import threads as _threads
from weft.compat.torch.absent import refuse as _refuse
from weft.compat.torch.dtypes import NAMES as _DTYPES
from weft.compat.torch.dtypes import dtype as dtype
from weft.compat.torch.table import FUNCTIONS as _FUNCTIONS
from weft.compat.torch.tensor import Size as Size
from weft.compat.torch.tensor import Tensor as Tensor
from weft.compat.torch.tensor import device as device
from weft.compat.torch.threads import get_num_interop_threads as get_num_interop_threads
from weft.compat.torch.threads import get_num_threads as get_num_threads
from weft.compat.torch.threads import set_num_interop_threads as set_num_interop_threads
from weft.compat.torch.threads import set_num_threads as set_num_threads

__config__ = SimpleNamespace(parallel_info=_threads.parallel_info, show=_threads.show)
inf, nan, pi, e = float("inf"), float("nan"), 3.141592653589793, 2.718281828459045


def is_tensor(obj: Any) -> bool:
    """Whether `obj` is a Tensor."""
    return isinstance(obj, Tensor)


def numel(input: Tensor) -> int:
    """The number of elements."""
    return input.numel()


@contextmanager
def no_grad() -> Iterator[None]:
    """Nothing to switch off: there are no gradients."""
    yield


inference_mode = no_grad
globals().update(_FUNCTIONS)
globals().update(_DTYPES)
__all__ = sorted({  # noqa: PLE0605
    *_FUNCTIONS, *_DTYPES, "Size", "Tensor", "__config__", "backends", "device", "dtype", "e", "get_num_interop_threads",
    "get_num_threads", "inf", "inference_mode", "is_tensor", "jit", "nan", "nn", "no_grad", "numel", "pi",
    "set_num_interop_threads", "set_num_threads",
})  # fmt: skip


def __dir__() -> list[str]:
    return list(__all__)


def __getattr__(name: str) -> Any:
    raise _refuse("torch", name, __all__)
