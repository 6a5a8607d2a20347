"""What a script may have read beyond its arguments, as it was: attributes, globals, closures, and what these hold.

Everything that the code of the functions it ran can name is looked at. Values that do not change are told by what they
are; containers by what they hold; tensors by themselves, their shape and element type, but not their elements, which
are read anew; modules by the attributes that code names. What else there may be cannot be looked at: then the facts are
not `complete`, and nothing is replayed.
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
from treadle.compat.torch.jit.pure import plain_package
from treadle.compat.torch.jit.scripted import Scripted
from treadle.compat.torch.nn.module import Module
from treadle.compat.torch.tensor import Tensor

MOST = 10_000
"""More facts than this are not gathered: looking at them would take longer than the script."""

_LAYERS = "treadle.compat.torch.nn."
"""Where the classes are whose own code reads any of their attributes."""

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
"""Special methods of a module's class that a script does not call unseen."""


class Facts:
    """Facts gathered from `functions` and from `roots`, objects that were passed to them."""

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
        self._forms: list[tuple[Tensor, tuple[int, ...], tuple[int, ...], Any]] = []
        self._seen: dict[int, Any] = {}  # by id, which the value keeps its own
        self._classes: set[type] = set()
        for function in self.functions:
            self._function(function)
        for root in roots:
            self._value(root, "an argument")

    @property
    def complete(self) -> bool:
        """Whether nothing that may have been read was left out."""
        return not self.missing and len(self._values) < MOST

    def hold(self) -> bool:
        """Whether everything is still as it was."""
        found = [get(key, _MISSING) for get, key in zip(self._getters, self._keys, strict=True)]
        if not all(map(is_, found, self._values)) and not all(map(_same, found, self._values)):
            return False
        for container, parts in self._lists:
            if len(container) != len(parts) or not all(map(is_, container, parts)):
                return False
        for cell, value in self._cells:
            if _contents(cell) is not value:
                return False
        for tensor, shape, strides, kind in self._forms:
            array = tensor.array
            if array is None or array.shape != shape or array.strides != strides or array.dtype is not kind:
                return False
        return True

    def gone(self) -> bool:
        """Whether a tensor was put in the place of another: the earlier one should not be kept for its sake."""
        found = zip(self._getters, self._keys, self._values, strict=True)
        return any(isinstance(value, Tensor) and get(key, _MISSING) is not value for get, key, value in found)

    def _fact(self, get: Callable[..., Any], key: Any, what: str) -> Any:
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
                self._fact(function.__globals__.get, name, f"global {name!r}")
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
            if not plain_package(value.__name__):
                self._attributes(vars(value), self._names & vars(value).keys(), f"{value.__name__}.")
        elif isinstance(value, type):
            self._class(value)
        elif isinstance(value, _RECORDS) or (dataclasses.is_dataclass(value) and not self._odd(type(value))):
            self._class(type(value))
            self._attributes(vars(value), self._readable(value), f"{type(value).__name__}.")
        elif not isinstance(value, _CALLABLE):
            self.missing = f"{what} is a {type(value).__name__}, which may change unseen"

    def _tensor(self, tensor: Tensor) -> None:
        array = tensor.array
        if array is None:
            self.missing = "a tensor is still to be computed"
            return
        self.tensors[id(tensor)] = tensor
        self._forms.append((tensor, array.shape, array.strides, array.dtype))

    def _container(self, container: Any, what: str) -> None:
        self.containers.add(id(container))
        self._lists.append((container, tuple(container)))
        for each in container:
            self._value(each, what)
        for key in container if isinstance(container, dict) else ():
            self._fact(container.get, key, what)

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
        """The attributes that code may read of an object: its own, and those it has of its class, until it has its own."""
        return {name for name in self._names if name in self.named or name in vars(value) or hasattr(type(value), name)}

    def _class(self, kind: type) -> None:
        for each in kind.__mro__:
            if not plain_package(each.__module__) and not issubclass(each, enum.Enum) and each not in self._classes:
                self._classes.add(each)
                self._attributes(vars(each), self.named | (self._names & vars(each).keys()), f"{each.__name__}.")
                self.missing = self.missing or self._odd(each)

    def _odd(self, kind: type) -> str:
        """Why reading attributes of `kind` may run code unseen."""
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
            self._fact(values.get, name, prefix + name)


def _contents(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _MISSING


def _same(found: Any, value: Any) -> bool:
    """Whether two values are one, or numbers or strings that cannot be told apart."""
    if found is value:
        return True
    return type(found) is type(value) and type(value) in (int, str, bytes, float) and repr(found) == repr(value)
