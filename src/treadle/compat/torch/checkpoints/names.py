"""What names in a checkpoint stand for: the types and functions that tensors are made of, and what a program allows."""

from __future__ import annotations

import pickle
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from treadle.compat.torch import dtypes
from treadle.compat.torch.checkpoints.storages import Storage, StorageClass, storage_class
from treadle.compat.torch.devices import device
from treadle.compat.torch.dtypes import LEGACY, dtype
from treadle.compat.torch.nn.module import Parameter
from treadle.compat.torch.sizes import Size
from treadle.compat.torch.tensor import Tensor

BLOCKED = frozenset(("sys", "os", "posix", "nt"))
"""Modules of which a program cannot allow anything either."""

_allowed: dict[str, Any] = {}
"""What the program allows, by full name."""


def _name_of(entry: Any) -> tuple[str, Any]:
    if not isinstance(entry, tuple):
        return f"{entry.__module__}.{entry.__qualname__}", entry
    if len(entry) != 2:
        raise ValueError(
            f"Expected tuple of length 2 (global, str of callable full path), but got tuple of length: {len(entry)}"
        )
    if type(entry[1]) is not str:
        raise TypeError(f"Expected second item in tuple to be str of callable full path, but got: {type(entry[1])}")
    return entry[1], entry[0]


def add_safe_globals(safe_globals: Sequence[Any]) -> None:
    """Allows checkpoints to name classes and functions of the program, which are then called while they are loaded.

    Args:
        safe_globals: Classes and functions, or pairs of one and the full name that checkpoints give it.
    """
    _allowed.update(_name_of(entry) for entry in safe_globals)


def get_safe_globals() -> list[Any]:
    """Returns what `add_safe_globals` has allowed."""
    return list(_allowed.values())


def clear_safe_globals() -> None:
    """Takes back what `add_safe_globals` has allowed."""
    _allowed.clear()


@contextmanager
def safe_globals(safe_globals: Sequence[Any]) -> Iterator[None]:
    """Allows classes and functions in a `with` block, as `add_safe_globals` does."""
    before = dict(_allowed)
    add_safe_globals(safe_globals)
    try:
        yield
    finally:
        _allowed.clear()
        _allowed.update(before)


def is_allowed(value: Any) -> bool:
    """Returns whether the program has allowed `value`."""
    return any(value is each for each in _allowed.values())


def _rebuild(storage: Any, offset: int, size: Any, stride: Any, of: dtype | None) -> Tensor:
    if not isinstance(storage, Storage) or of is None:
        raise pickle.UnpicklingError(f"wanted a storage and its dtype, got {type(storage).__name__} and {of}")
    return storage.tensor(of, offset, tuple(size), tuple(stride))


def _rebuild_tensor(storage: Any, offset: int, size: Any, stride: Any) -> Tensor:
    return _rebuild(storage, offset, size, stride, getattr(storage, "dtype", None))


def _rebuild_tensor_v2(
    storage: Any, offset: int, size: Any, stride: Any, requires_grad: Any, hooks: Any, metadata: Any = None
) -> Tensor:
    return _rebuild_tensor(storage, offset, size, stride)


def _rebuild_tensor_v3(
    storage: Any, offset: int, size: Any, stride: Any, requires_grad: Any, hooks: Any, of: dtype, metadata: Any = None
) -> Tensor:
    return _rebuild(storage, offset, size, stride, of)


def _parameter(data: Any, requires_grad: Any = True) -> Parameter:
    if not isinstance(data, Tensor):
        raise pickle.UnpicklingError(f"wanted the tensor of a parameter, got {type(data).__name__}")
    return Parameter(data)


def _rebuild_parameter(data: Tensor, requires_grad: Any, hooks: Any) -> Parameter:
    return _parameter(data)


def _rebuild_parameter_with_state(data: Tensor, requires_grad: Any, hooks: Any, state: Any) -> Parameter:
    _without_state(state)
    return _parameter(data)


def _rebuild_from_type_v2(rebuild: Callable[..., Any], kind: Any, arguments: tuple[Any, ...], state: Any) -> Any:
    if rebuild not in REBUILD.values() or kind not in (Tensor, Parameter):
        raise pickle.UnpicklingError(f"a tensor of the class {kind!r}: treadle has Tensor and nn.Parameter")
    _without_state(state)
    return rebuild(*arguments)


def _without_state(state: Any) -> None:
    if any(state if isinstance(state, tuple) else (state,)):
        raise pickle.UnpicklingError(f"a tensor has attributes of its own ({state!r}), which treadle's cannot have")


def _encode(text: Any, encoding: Any) -> bytes:
    """Bytes, as protocol 2 of pickle writes them."""
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1"):
        raise pickle.UnpicklingError(f"wanted a str in latin1, got {type(text).__name__} in {encoding!r}")
    return text.encode("latin1")


def _bytearray(data: Any = b"", encoding: Any = None) -> bytearray:
    if isinstance(data, str):
        data = _encode(data, encoding)
    if not isinstance(data, bytes):
        raise pickle.UnpicklingError(f"wanted the bytes of a bytearray, got {type(data).__name__}")
    return bytearray(data)


def _size(lengths: Any = ()) -> Size:
    if not all(type(length) is int for length in lengths):
        raise pickle.UnpicklingError(f"wanted integers for a torch.Size, got {lengths!r}")
    return Size(lengths)


REBUILD: dict[str, Callable[..., Any]] = {
    f"torch._utils.{each.__name__}": each
    for each in (
        _rebuild_tensor, _rebuild_tensor_v2, _rebuild_tensor_v3, _rebuild_parameter, _rebuild_parameter_with_state,
    )
}  # fmt: skip
"""Functions that make tensors."""

CALLED: dict[str, Callable[..., Any]] = {
    **REBUILD,
    "torch._tensor._rebuild_from_type_v2": _rebuild_from_type_v2,
    "torch.Size": _size,
    "torch.device": device,
    "torch.nn.parameter.Parameter": Parameter,
    "collections.OrderedDict": OrderedDict,
    "collections.Counter": Counter,
    "_codecs.encode": _encode,
    "builtins.bytearray": _bytearray,
    "builtins.set": set,
    "builtins.complex": complex,
}
"""What a checkpoint may call; each checks its arguments, or takes any."""

_TENSOR_CLASSES = {"torch.Tensor", *(f"torch.{name}" for name in LEGACY.values())}


def find(full_name: str) -> Any:
    """Returns what `full_name` stands for.

    Raises:
        UnpicklingError: It is not one of the names that checkpoints need, and the program has not allowed it.
    """
    if full_name in CALLED:
        return CALLED[full_name]
    module, _, name = full_name.rpartition(".")
    if module in ("torch", "torch.storage") and name.endswith("Storage"):
        return storage_class(name)
    if module == "torch" and name in dtypes.NAMES:
        return dtypes.NAMES[name]
    if full_name in _TENSOR_CLASSES:
        return Tensor
    if module in BLOCKED:
        raise pickle.UnpicklingError(f"Trying to load unsupported GLOBAL {full_name} whose module {module} is blocked.")
    if full_name in _allowed:
        return _allowed[full_name]
    shown = full_name.removeprefix("builtins.")
    raise pickle.UnpicklingError(
        f"Unsupported global: GLOBAL {shown} was not an allowed global by default. Please use "
        f"`torch.serialization.add_safe_globals([{shown}])` or the `torch.serialization.safe_globals([{shown}])` "
        "context manager to allowlist this global if you trust this class/function."
    )


def call(function: Any, arguments: tuple[Any, ...]) -> Any:
    """Returns what `function`, which `may_call` allows, makes of `arguments`."""
    return _parameter(*arguments) if function is Parameter else function(*arguments)


def may_call(function: Any) -> bool:
    """Returns whether a checkpoint may call `function`, which `find` has returned."""
    return not isinstance(function, StorageClass) and (
        any(function is each for each in CALLED.values()) or is_allowed(function)
    )
