"""Arguments of methods of TorchScript modules: bound to their schema and checked, with PyTorch's messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from treadle.compat.torch.devices import device
from treadle.compat.torch.dtypes import dtype
from treadle.compat.torch.tensor import Tensor


class _MisfitError(Exception):
    """A value does not fit its type."""


def bind(schema: Any, args: Sequence[Any], kwargs: Mapping[str, Any], tensor: Callable[[Tensor], Any]) -> list[Any]:
    """Returns the arguments behind `self` in the order of a schema of PyTorch, with defaults for those left out.

    Args:
        schema: What PyTorch says of the method.
        args: The positional arguments.
        kwargs: The named ones.
        tensor: Returns what takes the place of a tensor.

    Raises:
        RuntimeError: They do not fit; PyTorch raises the same.
    """
    _self, *arguments = schema.arguments
    if len(args) > len(arguments):
        raise RuntimeError(
            f"{schema.name}() expected at most {len(arguments) + 1} argument(s) but received {len(args) + 1} "
            f"argument(s). Declaration: {schema}"
        )
    found = []
    for place, argument in enumerate(arguments):
        if place < len(args):
            value = args[place]
        elif argument.name in kwargs:
            value = kwargs[argument.name]
        elif argument.has_default_value():
            found.append(argument.default_value)
            continue
        else:
            raise RuntimeError(
                f"{schema.name}() is missing value for argument '{argument.name}'. Declaration: {schema}"
            )
        try:
            found.append(_converted(value, argument.type, tensor))
        except _MisfitError:
            raise RuntimeError(
                f"{schema.name}() Expected a value of type '{argument.type}' for argument '{argument.name}' but "
                f"instead found type '{type(value).__name__}'.\nPosition: {place + 1}\nValue: {value!r}\n"
                f"Declaration: {schema}"
            ) from None
    names = [argument.name for argument in arguments]
    for name in kwargs:
        if name in names[: len(args)]:
            raise RuntimeError(f"Argument '{name}' specified both as positional and keyword argument. Schema: {schema}")
        if name not in names:
            raise RuntimeError(f"Unknown keyword argument '{name}' for operator '{schema.name}'. Schema: {schema}")
    return found


def _converted(value: Any, type_: Any, tensor: Callable[[Tensor], Any]) -> Any:
    """Returns `value` as a script takes it for an argument of this type. Raises _MisfitError."""
    kind = type_.kind()
    if kind == "OptionalType":
        return None if value is None else _converted(value, type_.getElementType(), tensor)
    if kind == "TensorType":
        return tensor(value) if isinstance(value, Tensor) else _refused()
    if kind in _SIMPLE:
        return _SIMPLE[kind](value)
    return _CONTAINERS.get(kind, _of_any_type)(value, type_, tensor)


def _list(value: Any, type_: Any, tensor: Callable[[Tensor], Any]) -> list[Any]:
    element = type_.getElementType()
    return [_converted(each, element, tensor) for each in _instance(list | tuple)(value)]


def _tuple(value: Any, type_: Any, tensor: Callable[[Tensor], Any]) -> list[Any]:
    elements = type_.elements()
    if len(_instance(tuple)(value)) != len(elements):
        _refused()
    return [_converted(each, element, tensor) for each, element in zip(value, elements, strict=True)]


def _dict(value: Any, type_: Any, tensor: Callable[[Tensor], Any]) -> dict[Any, Any]:
    key, element = type_.getKeyType(), type_.getValueType()
    items = _instance(dict)(value).items()
    return {_converted(name, key, tensor): _converted(each, element, tensor) for name, each in items}


def _of_any_type(value: Any, type_: Any, tensor: Callable[[Tensor], Any]) -> Any:
    """Returns a value of an argument whose type leaves it open."""
    if isinstance(value, Tensor):
        return tensor(value)
    if isinstance(value, list | tuple):
        return [_of_any_type(each, type_, tensor) for each in value]
    if isinstance(value, dict):
        return {name: _of_any_type(each, type_, tensor) for name, each in value.items()}
    return value if value is None or isinstance(value, bool | int | float | str) else _refused()


def _refused() -> Any:
    raise _MisfitError


def _integer(value: Any) -> int:
    if isinstance(value, dtype):
        from treadle.frontends.torch.dtypes import number_of

        return number_of(value.core)
    found: int = int(value) if isinstance(value, int | np.integer) else _refused()
    return found


def _float(value: Any) -> float:
    found: float = float(value) if isinstance(value, int | float | np.number) else _refused()
    return found


def _instance(kinds: Any) -> Callable[[Any], Any]:
    return lambda value: value if isinstance(value, kinds) else _refused()


_SIMPLE: dict[str, Callable[[Any], Any]] = {
    "IntType": _integer,
    "FloatType": _float,
    "BoolType": _instance(bool),
    "StringType": _instance(str),
    "NoneType": _instance(type(None)),
    "DeviceObjType": lambda value: str(value) if isinstance(value, str | device) else _refused(),
}
"""The kind of a type -> what converts values to it."""

_CONTAINERS: dict[str, Callable[[Any, Any, Callable[[Tensor], Any]], Any]] = {
    "DictType": _dict,
    "ListType": _list,
    "TupleType": _tuple,
}
"""The kind of a type -> what converts values and those inside them."""
