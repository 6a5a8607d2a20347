"""TorchScript's functions on Python values: numbers, lists, and properties of tensors."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import torch

from treadle import dtypes
from treadle.frontends.faults import Fault, Unsupported
from treadle.frontends.torch.build import Builder, Complex, Number
from treadle.frontends.torch.containers import METHODS
from treadle.frontends.torch.dtypes import complex_number_of, number_of
from treadle.frontends.torch.rules.elementwise import to_bool
from treadle.frontends.torch.scalars import item, truncated_quotient
from treadle.frontends.torch.symbols import power
from treadle.frontends.torch.tensor import Box
from treadle.graph.dim import floor_int, is_expression, maximum, minimum
from treadle.graph.shape import elements
from treadle.graph.value import Value

Function = Callable[..., Any]
"""(builder, arguments) -> a Python value, or a Box or Number where it depends on data."""


def _plain(function: Callable[..., Any]) -> Function:
    return lambda _, *args: function(*args)


def _dtype(_: Builder, x: Box) -> int:
    held = x.held()
    return number_of(held.known_dtype) if isinstance(held, Value) else complex_number_of(held.re.known_dtype)


def _size(b: Builder, x: Box, axis: int | None = None) -> Any:
    shape = b.shape(x.held())
    return list(shape) if axis is None else shape[axis]


def _length(b: Builder, x: Any) -> int:
    return b.shape(x.held())[0] if isinstance(x, Box) else len(x)


def _number(kind: type) -> Function:
    def function(b: Builder, x: Any) -> Any:
        found = item(b, x.read()) if isinstance(x, Box) else x
        if isinstance(found, Number):
            to = {bool: dtypes.boolean, int: dtypes.i64, float: dtypes.f32}[kind]
            return Number(to_bool(b, found.value) if kind is bool else b.cast(found.value, to))
        if is_expression(found):
            return found != 0 if kind is bool else floor_int(found) if kind is int else found
        return kind(found)

    return function


def _append(_: Builder, entries: list[Any], entry: Any) -> list[Any]:
    entries.append(entry)
    return entries


def _insert(_: Builder, entries: list[Any], at: int, entry: Any) -> None:
    entries.insert(at, entry)


def _set(_: Builder, entries: Any, at: Any, entry: Any) -> Any:
    entries[at] = entry
    return entries


def _extend(_: Builder, entries: list[Any], more: list[Any]) -> None:
    entries.extend(more)


def _pop(_: Builder, entries: list[Any], at: int = -1) -> Any:
    return entries.pop(at)


def _slice(_: Builder, entries: Any, start: int | None = None, end: int | None = None, step: int = 1) -> Any:
    return entries[start:end:step]


def _floor_div(x: Any, y: Any) -> Any:
    return x // y


def _format(_: Builder, text: str, *args: Any) -> str:
    for argument in args:
        text = text.replace("{}", str(argument), 1)
    return text


def _to_tensor(b: Builder, number: Any) -> Box:
    if isinstance(number, Number):
        return Box(number.value)
    return Box(b.number(number))


def _is_floating(_: Builder, x: Box) -> bool:
    return x.read().known_dtype.is_float


def _raise(kind: str) -> Function:
    def function(_: Builder, *__: Any) -> Any:
        raise Unsupported(f"it reads {kind}")

    return function


def _is(_: Builder, x: Any, y: Any) -> bool:
    return x is y or (x is None and y is None)


def _get(_: Builder, entries: Any, at: Any) -> Any:
    if isinstance(at, Number):
        raise Unsupported("it takes an entry of a list by a number that is known only when the graph runs")
    try:
        return entries[at]
    except (IndexError, KeyError) as error:
        raise Fault(f"{type(error).__name__}: {error}") from None


def _extreme(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args: function(*args[0]) if len(args) == 1 else function(*args)


FUNCTIONS: dict[str, Function] = {
    **METHODS,
    # properties of tensors
    "aten::Bool": _number(bool),
    "aten::Float": _number(float),
    "aten::FloatImplicit": _number(float),
    "aten::Int": _number(int),
    "aten::IntImplicit": _number(int),
    "aten::ScalarImplicit": lambda b, x: item(b, x.read()),
    "aten::dim": lambda b, x: b.rank(x.held()),
    "aten::is_autocast_cpu_enabled": lambda *_: False,
    "aten::is_autocast_enabled": lambda *_: False,
    "aten::is_complex": lambda _, x: isinstance(x.held(), Complex),
    "aten::is_floating_point": _is_floating,
    "aten::is_grad_enabled": lambda *_: False,
    "aten::item": lambda b, x: item(b, x.read()),
    "aten::len": _length,
    "aten::numel": lambda b, x: elements(b.shape(x.held())),
    "aten::size": _size,
    "aten::stride": _raise("strides"),
    "prim::NumToTensor": _to_tensor,
    "prim::data": lambda _, x: x,
    "prim::device": lambda *_: torch.device("cpu"),
    "prim::dtype": _dtype,
    "prim::is_cuda": lambda *_: False,
    "prim::is_mkldnn": lambda *_: False,
    "prim::is_nested": lambda *_: False,
    "prim::is_quantized": lambda *_: False,
    "prim::is_sparse": lambda *_: False,
    "prim::layout": lambda *_: 0,
    "prim::requires_grad": lambda *_: False,
    "prim::shape": _size,
    "prim::type": lambda _, device: device.type,
    # lists, tuples, dictionaries, text
    "aten::__contains__": lambda _, entries, entry: entry in entries,
    "aten::__getitem__": _get,
    "aten::__is__": _is,
    "aten::__isnot__": lambda b, x, y: not _is(b, x, y),
    "aten::_set_item": _set,
    "aten::append": _append,
    "aten::copy.t": lambda _, entries: list(entries),
    "aten::extend": _extend,
    "aten::format": _format,
    "aten::insert": _insert,
    "aten::items": lambda _, entries: list(entries.items()),
    "aten::keys": lambda _, entries: list(entries),
    "aten::list": lambda _, entries: list(entries),
    "aten::percentFormat": lambda _, text, *args: text % args,
    "aten::pop": _pop,
    "aten::slice.t": _slice,
    "aten::str": _plain(str),
    "aten::values": lambda _, entries: list(entries.values()),
}
"""Node kind -> its function, for any arguments; those ending in `.t` apply to lists only."""

NUMERIC: dict[str, Callable[..., Any]] = {
    "__and__": operator.and_,
    "__not__": operator.not_,
    "__or__": operator.or_,
    "__round_to_zero_floordiv": truncated_quotient,
    "__xor__": operator.xor,
    "abs": abs,
    "add": operator.add,
    "all": all,
    "any": any,
    "ceil": math.ceil,
    "cos": math.cos,
    "div": operator.truediv,
    "eq": operator.eq,
    "exp": math.exp,
    "floor": floor_int,
    "floordiv": _floor_div,
    "ge": operator.ge,
    "gt": operator.gt,
    "le": operator.le,
    "log": math.log,
    "lt": operator.lt,
    "max": _extreme(maximum),
    "min": _extreme(minimum),
    "mod": operator.mod,
    "mul": operator.mul,
    "ne": operator.ne,
    "neg": operator.neg,
    "pow": power,
    "remainder": operator.mod,
    "round": round,
    "sin": math.sin,
    "sqrt": math.sqrt,
    "sub": operator.sub,
    "sum": sum,
}
"""Op on Python numbers and lists of them -> its function."""
