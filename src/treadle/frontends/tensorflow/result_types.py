"""Element types of results where ranks, or the values of attributes, are not known: those of operands decide them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from treadle import dtypes
from treadle.dtypes import DType

Arguments = Mapping[str, Any]
"""The arguments of a rule: dtypes for tensors, lists of them for several; None for absent ones, and no unknown ones."""

ResultTypes = Callable[[Arguments], Sequence[DType]]


def of_first(given: Arguments) -> list[DType]:
    """One result, of the dtype of the first tensor."""
    return [next(kind for value in given.values() for kind in _listed(value) if isinstance(kind, DType))]


def of(*names: str) -> ResultTypes:
    """For each name a result of the dtype of this argument; in "a|b" of the first one that is not None."""

    def types(given: Arguments) -> list[DType]:
        return [next(given[each] for each in name.split("|") if given.get(each) is not None) for name in names]

    return types


def always(dtype: DType) -> ResultTypes:
    """One result, of `dtype`."""
    return lambda _: [dtype]


def where(given: Arguments) -> list[DType]:
    """The dtype of what is chosen; int64 for indices."""
    return [given["x"] or dtypes.i64]


def quotient(given: Arguments) -> list[DType]:
    """The dtype of a quotient as Python's / makes it."""
    return [of_quotient(given["x"])]


def of_quotient(dtype: DType) -> DType:
    """Return the dtype in which / divides: that of floats, float64 for integers, float32 for those of 8 and 16 bits."""
    return dtype if dtype.is_float else dtypes.f32 if dtype.size <= 2 else dtypes.f64


def range_(given: Arguments) -> list[DType]:
    """The dtype that is stated, or the widest one of the bounds."""
    bounds = [given[name] for name in ("start", "limit", "delta") if given[name] is not None]
    return [given["dtype"] or widest(bounds)]


_WIDER = (dtypes.i32, dtypes.i64, dtypes.f32, dtypes.f64)


def widest(kinds: Sequence[DType]) -> DType:
    """Return the dtype of a range with bounds of these."""
    return max(kinds, key=_WIDER.index) if all(kind in _WIDER for kind in kinds) else kinds[0]


def one_hot(given: Arguments) -> list[DType]:
    """The dtype that is stated, or that of the values; float32 without either."""
    stated = [given[name] for name in ("on_value", "off_value") if given.get(name) is not None]
    return [given["dtype"] or (of_number(stated[0]) if stated else dtypes.f32)]


def of_number(value: Any) -> DType:
    """Return the dtype of the tensor of a Python value."""
    return dtypes.boolean if isinstance(value, bool) else dtypes.i32 if isinstance(value, int) else dtypes.f32


def linspace(given: Arguments) -> list[DType]:
    """The dtype of the ends; float64 for integers."""
    return [given["start"] if given["start"].is_float else dtypes.f64]


def each_of(name: str) -> ResultTypes:
    """A result for each tensor of this argument, of its dtype."""
    return lambda given: _listed(given[name])


def for_each(many: str, name: str) -> ResultTypes:
    """A result for each tensor of the argument `many`, of the dtype that the argument `name` is."""
    return lambda given: [given[name]] * len(given[many])


def parts(given: Arguments) -> list[DType]:
    """As many results as split() is asked for. Raises ValueError if their number is not known."""
    asked = given.get("num_or_size_splits")
    count = given.get("num") if asked is None else asked if isinstance(asked, int) else len(asked)
    return _several(given["value"], count)


def rows(given: Arguments) -> list[DType]:
    """As many results as unstack() is asked for. Raises ValueError if their number is not known."""
    return _several(given["value"], given.get("num"))


def _several(dtype: DType, count: int | None) -> list[DType]:
    if count is None:
        raise ValueError("Cannot infer argument `num`: the size of the axis is not known")
    return [dtype] * count


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]
