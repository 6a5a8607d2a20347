"""Integers that a recording has not computed yet: sizes that depend on data, elements, and what follows of them.

Arithmetic on them gives others. Whatever else Python does with one needs the number: the recording is computed then.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn

from treadle.compat.signatures import map_structure
from treadle.compat.torch.state import current
from treadle.graph.dim import is_expression

if TYPE_CHECKING:
    from treadle.compat.torch.tensor import Tensor

Leaf = Callable[[Any, int | None], Any]
"""Returns a size of a tensor, by its axis, or its only element (axis None)."""

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


class Lazy:
    """A number or bool that follows from sizes and elements of tensors.

    Attributes:
        op: "size", "item" or an operation.
        args: For "size" a tensor and an axis. For "item" a tensor of one element, to which nothing else refers, and
            that element if it exists, else None. For an operation its operands.
    """

    __slots__ = ("__weakref__", "args", "op")

    def __init__(self, op: str, args: tuple[Any, ...]) -> None:
        self.op = op
        self.args = args

    def tensors(self) -> Iterator[Tensor]:
        """Yields the tensors that it follows from."""
        if self.op in ("size", "item"):
            yield self.args[0]
            return
        for each in self.args:
            if isinstance(each, Lazy):
                yield from each.tensors()

    def evaluate(self, leaf: Leaf) -> Any:
        """Returns it for these sizes and elements."""
        if self.op == "size":
            return leaf(*self.args)
        if self.op == "item":
            return leaf(self.args[0], None)
        return _FUNCTIONS[self.op](*(each.evaluate(leaf) if isinstance(each, Lazy) else each for each in self.args))

    def computed(self) -> Any:
        """Returns it as Python's number; a recording is computed if need be, and is not replayed then."""
        recording = current()
        if recording is not None:
            recording.not_replayable = "it reads a size or an element that depends on data"
            recording.data_dependent = True
        return _number(self)

    def __bool__(self) -> bool:
        return bool(self.computed())

    def __str__(self) -> str:
        return str(self.computed())

    def __repr__(self) -> str:
        return repr(self.computed())

    def __format__(self, spec: str) -> str:
        return format(self.computed(), spec)

    def __hash__(self) -> int:
        return hash(self.computed())

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.computed(), name)


def _number(lazy: Lazy) -> Any:
    """Returns it as Python's number. Elements that exist are not computed."""
    if lazy.op == "size":
        tensor, axis = lazy.args
        return tensor.materialized().shape[axis]
    if lazy.op == "item":
        tensor, element = lazy.args
        return int(tensor.materialized().reshape(-1)[0]) if element is None else element
    return _FUNCTIONS[lazy.op](*(_number(each) if isinstance(each, Lazy) else each for each in lazy.args))


class LazyBool(Lazy):
    """The result of a comparison."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return bool(self.computed() == other)

    __hash__ = Lazy.__hash__


class LazyInt(Lazy):
    """An integer.

    Attributes:
        size: The expression of the recording's facts that it is; None if that is not known.
    """

    __slots__ = ("size",)

    def __init__(self, op: str, args: tuple[Any, ...], size: Any) -> None:
        super().__init__(op, args)
        self.size = size

    def __int__(self) -> int:
        return int(self.computed())

    def __index__(self) -> int:
        return int(self.computed())

    def __float__(self) -> float:
        return float(self.computed())

    def __neg__(self) -> Any:
        return _made("mul", self, -1)

    def __pos__(self) -> LazyInt:
        return self

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other


def _made(op: str, left: Any, right: Any) -> Any:
    """Returns the result of an operation, as a number if it is known."""
    sizes = [each.size if isinstance(each, LazyInt) else each for each in (left, right)]
    divides = op in ("floordiv", "mod")
    size = None
    if None not in sizes and not (divides and (is_expression(sizes[1]) or sizes[1] <= 0)):
        size = _FUNCTIONS[op](*sizes)
    return LazyInt(op, (left, right), size) if size is None or is_expression(size) else size


def _arithmetic(op: str, *, swapped: bool = False) -> Callable[[Any, Any], Any]:
    def method(self: LazyInt, other: Any) -> Any:
        if isinstance(other, bool | int | LazyInt):
            return _made(op, other, self) if swapped else _made(op, self, other)
        if not isinstance(other, float):
            return NotImplemented
        return _FUNCTIONS[op](*((other, self.computed()) if swapped else (self.computed(), other)))

    return method


def _plain(function: Callable[[Any, Any], Any], *, swapped: bool = False) -> Callable[[Any, Any], Any]:
    """Returns a method for an operation that needs the numbers."""

    def method(self: LazyInt, other: Any) -> Any:
        if not isinstance(other, bool | int | float | LazyInt):
            return NotImplemented
        mine, theirs = self.computed(), other.computed() if isinstance(other, LazyInt) else other
        return function(theirs, mine) if swapped else function(mine, theirs)

    return method


def _comparison(op: str) -> Callable[[Any, Any], Any]:
    def method(self: LazyInt, other: Any) -> Any:
        if isinstance(other, LazyInt) and self.size is not None and self.size is other.size:
            return op in ("eq", "le", "ge")
        if not isinstance(other, bool | int | LazyInt):
            return _FUNCTIONS[op](self.computed(), other) if isinstance(other, float) else NotImplemented
        return LazyBool(op, (self, other))

    return method


for _name in ("add", "sub", "mul", "floordiv", "mod"):
    setattr(LazyInt, f"__{_name}__", _arithmetic(_name))
    setattr(LazyInt, f"__r{_name}__", _arithmetic(_name, swapped=True))
for _name, _function in {
    "truediv": operator.truediv,
    "pow": operator.pow,
    "and": operator.and_,
    "or": operator.or_,
}.items():
    setattr(LazyInt, f"__{_name}__", _plain(_function))
    setattr(LazyInt, f"__r{_name}__", _plain(_function, swapped=True))
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(LazyInt, f"__{_name}__", _comparison(_name))
setattr(LazyInt, "__hash__", Lazy.__hash__)  # noqa: B010 - a class with __eq__ loses it


def plain(structure: Any) -> Any:
    """Returns the arguments or the result of a call with Python's numbers in place of those that are not known yet."""
    return map_structure(structure, lambda number: number.computed(), Lazy)


class NeedsElementsError(Exception):
    """Code that is to serve all sizes needs elements of a tensor, or a size that is not known yet. It never reaches
    the user."""


class UntoldSize:
    """A size in a sketch of which nothing is known: whatever is done with it raises NeedsElementsError."""

    def _needed(self, *_: Any) -> NoReturn:
        raise NeedsElementsError

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __floordiv__ = __rfloordiv__ = _needed
    __mod__ = __rmod__ = __neg__ = __lt__ = __le__ = __gt__ = __ge__ = __bool__ = __int__ = __index__ = _needed
    __eq__ = __ne__ = __hash__ = _needed
