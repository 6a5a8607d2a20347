"""Guards of a script's replay: what the script may have read besides its arguments, and how it was.

The guards cover everything that the code of the functions it entered can name: globals, closures, defaults, and the
attributes of the objects found there. Immutable values are compared by value, containers by their entries, modules by
the attributes that code names. Tensors are compared by identity, shape and dtype; each replay reads their elements
again. If something cannot be guarded, the guards are not `complete`, and the script is not replayed.
"""

from __future__ import annotations

import dataclasses
import enum
import types
from argparse import Namespace
from collections.abc import Callable, Iterable
from operator import is_
from typing import Any

import numpy as np

from treadle.compat.torch.devices import device
from treadle.compat.torch.dtypes import dtype
from treadle.compat.torch.jit.code import names_of
from treadle.compat.torch.jit.pure import is_library
from treadle.compat.torch.jit.scripted import Scripted
from treadle.compat.torch.nn.module import Module
from treadle.compat.torch.tensor import Tensor

MOST_GUARDS = 10_000
"""The largest number of guards: checking more would take longer than the script."""

_LAYERS = "treadle.compat.torch.nn."
"""The package of the modules whose own code reads any of their attributes."""

_MISSING = object()
_VALUES = (
    int,
    float,
    str,
    bytes,
    type(None),
    dtype,
    device,
    np.generic,
    np.dtype,
    enum.Enum,
    type(Ellipsis),
    slice,
    range,
)
_RECORDS = (types.SimpleNamespace, Namespace)
_CALLABLE = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    classmethod,
    staticmethod,
    Scripted,
)
_HARMLESS = frozenset(
    {"__init__", "__repr__", "__str__", "__new__", "__getstate__", "__setstate__", "__del__", "__deepcopy__"}
)
"""Special methods of a module's class that a script does not call implicitly."""


class Guards:
    """Guards of a replay, collected from the `functions` that the script entered.

    `named` are attributes that it read by name; `roots` are objects among its arguments.
    """

    def __init__(self, functions: Iterable[types.FunctionType], named: Iterable[str], roots: Iterable[Any]) -> None:
        self.functions = frozenset(functions)
        self.missing = ""
        self.tensors: dict[int, Tensor] = {}
        self.containers: set[int] = set()
        self.named = frozenset(named)
        self._names = self.named.union(*(names_of(each.__code__).attributes for each in self.functions))
        self._getters: list[Callable[..., Any]] = []
        self._keys: list[Any] = []
        self._values: list[Any] = []
        self._lists: list[tuple[list[Any] | set[Any] | dict[Any, Any], tuple[Any, ...]]] = []
        self._cells: list[tuple[types.CellType, Any]] = []
        self._layouts: list[tuple[Tensor, tuple[int, ...], tuple[int, ...], Any]] = []
        self._seen: dict[int, Any] = {}  # by id; holding the value keeps the id unique
        self._classes: set[type] = set()
        for function in self.functions:
            self._function(function)
        for root in roots:
            self._value(root, "an argument")

    @property
    def complete(self) -> bool:
        """True if everything that may have been read is guarded."""
        return not self.missing and len(self._values) < MOST_GUARDS

    def hold(self) -> bool:
        """Returns True if nothing has changed."""
        found = [get(key, _MISSING) for get, key in zip(self._getters, self._keys, strict=True)]
        if not all(map(is_, found, self._values)) and not all(map(_same, found, self._values)):
            return False
        for container, parts in self._lists:
            if len(container) != len(parts) or not all(map(is_, container, parts)):
                return False
        for cell, value in self._cells:
            if _contents(cell) is not value:
                return False
        for tensor, shape, strides, kind in self._layouts:
            array = tensor.array
            if array is None or array.shape != shape or array.strides != strides or array.dtype is not kind:
                return False
        return True

    def has_replaced_tensor(self) -> bool:
        """Returns True if a tensor was replaced by another: the guards should not keep the earlier one alive."""
        found = zip(self._getters, self._keys, self._values, strict=True)
        return any(isinstance(value, Tensor) and get(key, _MISSING) is not value for get, key, value in found)

    def _guard(self, get: Callable[..., Any], key: Any, what: str) -> Any:
        value = get(key, _MISSING)
        self._getters.append(get)
        self._keys.append(key)
        self._values.append(value)
        if value is not _MISSING:
            self._value(value, what)
        return value

    def _function(self, function: types.FunctionType) -> None:
        names = names_of(function.__code__)
        self.missing = self.missing or names.writes
        for name in names.globals_:
            if name in function.__globals__:
                self._guard(function.__globals__.get, name, f"global {name!r}")
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            value = _contents(cell)
            self._cells.append((cell, value))
            if name != "__class__" and value is not _MISSING:
                self._value(value, f"{name!r} of a function around")
        for default in (function.__defaults__ or ()) + tuple((function.__kwdefaults__ or {}).values()):
            self._value(default, "a default")

    def _value(self, value: Any, what: str) -> None:
        if isinstance(value, _VALUES) or id(value) in self._seen:
            return
        self._seen[id(value)] = value
        if isinstance(value, Tensor):
            self._tensor(value)
        elif isinstance(value, Module):
            self._module(value)
        elif isinstance(value, tuple | frozenset):
            for each in value:
                self._value(each, what)
        elif type(value) in (list, set, dict):
            self._container(value, what)
        else:
            self._object(value, what)

    def _object(self, value: Any, what: str) -> None:
        if isinstance(value, types.ModuleType):
            if not is_library(value.__name__):
                self._attributes(vars(value), self._names & vars(value).keys(), f"{value.__name__}.")
        elif isinstance(value, type):
            self._class(value)
        elif isinstance(value, _RECORDS) or (dataclasses.is_dataclass(value) and not self._hidden_code(type(value))):
            self._class(type(value))
            self._attributes(vars(value), self._readable(value), f"{type(value).__name__}.")
        elif not isinstance(value, _CALLABLE):
            self.missing = f"{what} is a {type(value).__name__}, whose changes cannot be seen"

    def _tensor(self, tensor: Tensor) -> None:
        array = tensor.array
        if array is None:
            self.missing = "a tensor is not computed yet"
            return
        self.tensors[id(tensor)] = tensor
        self._layouts.append((tensor, array.shape, array.strides, array.dtype))

    def _container(self, container: Any, what: str) -> None:
        self.containers.add(id(container))
        self._lists.append((container, tuple(container)))
        for each in container:
            self._value(each, what)
        for key in container if isinstance(container, dict) else ():
            self._guard(container.get, key, what)

    def _module(self, module: Module) -> None:
        kind = type(module)
        own = vars(module)
        names = self._readable(module)
        if any(each.__module__.startswith(_LAYERS) and each is not Module for each in kind.__mro__):
            self._lists.append((own, tuple(own)))
            names |= own.keys()
        self._attributes(own, names, f"{kind.__name__}.")
        self._class(kind)

    def _readable(self, value: Any) -> set[str]:
        """Returns the attributes of an object that code may read: its own, and those of its class."""
        return {name for name in self._names if name in self.named or name in vars(value) or hasattr(type(value), name)}

    def _class(self, kind: type) -> None:
        for each in kind.__mro__:
            if not is_library(each.__module__) and not issubclass(each, enum.Enum) and each not in self._classes:
                self._classes.add(each)
                self._attributes(vars(each), self.named | (self._names & vars(each).keys()), f"{each.__name__}.")
                self.missing = self.missing or self._hidden_code(each)

    def _hidden_code(self, kind: type) -> str:
        """Returns why reading attributes of `kind` may run code that is not guarded, or an empty string."""
        if dataclasses.is_dataclass(kind) and "__dataclass_params__" in vars(kind):
            return ""
        for name, value in vars(kind).items():
            special = name.startswith("__") and name.endswith("__")
            if special and isinstance(value, types.FunctionType) and name not in _HARMLESS:
                return f"{kind.__name__} has a {name}"
            if name in self._names and isinstance(value, property):
                return f"{kind.__name__}.{name} is a property"
        return ""

    def _attributes(self, values: Any, names: Iterable[str], prefix: str) -> None:
        for name in list(names):
            self._guard(values.get, name, prefix + name)


def _contents(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _MISSING


def _same(found: Any, value: Any) -> bool:
    """Returns True if two values are identical, or equal numbers or strings."""
    if found is value:
        return True
    return type(found) is type(value) and type(value) in (int, str, bytes, float) and repr(found) == repr(value)
