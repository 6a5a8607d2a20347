"""Names for the sizes of graphs that follow sizes that depend on data."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from treadle.graph.dim import hint_of, is_expression
from treadle.graph.graph import Graph
from treadle.graph.reals import bits_of_real
from treadle.graph.shape import Shape, StaticShape
from treadle.graph.value import Value
from treadle.ops.sizes import known_value

Dims = tuple[int | None, ...]
"""The dimensions of a value: numbers, expressions of sizes, and None for sizes that only data tells."""


class SizeNames:
    """The names of open dimensions and numbers of one graph."""

    def __init__(self) -> None:
        self.dims: dict[str, int] = {}
        """The expressions that names stand for, but for those that data tells."""
        self.told: list[str] = []
        """The names of sizes that data tells, in order."""
        self._names: dict[int, str] = {}

    @property
    def all(self) -> tuple[str, ...]:
        """The names of all sizes: those of expressions come first."""
        return (*self.dims, *self.told)

    @property
    def hints(self) -> dict[str, int]:
        """The sample sizes of the names that stand for expressions, by name."""
        return {name: max(int(hint_of(size)), 1) for name, size in self.dims.items()}

    def named(self, size: Any) -> Any:
        """Return the name of an expression; a number as it is."""
        if not is_expression(size):
            return size
        name = self._names.get(id(size))
        if name is None:
            name = self._names[id(size)] = self._unused(str(size))
            self.dims[name] = size
        return name

    def shape(self, wanted: str, dims: StaticShape | Dims, told: Collection[int] = ()) -> Shape:
        """Return `dims` with names in place of expressions, and names like `wanted` for the axes that data tells."""
        return tuple(
            self.tell(f"{wanted}.{axis}") if axis in told else self.named(dim) for axis, dim in enumerate(dims)
        )

    def told_shape(self, wanted: str, dims: Dims) -> Shape:
        """Return `dims` with names in place of expressions, and names like `wanted` in place of None."""
        told = [axis for axis, dim in enumerate(dims) if dim is None]
        return self.shape(wanted, dims, told)

    def tell(self, wanted: str) -> str:
        """Return a name like `wanted` for a size that data tells."""
        self.told.append(self._unused(wanted))
        return self.told[-1]

    def add_known(self, graph: Graph, value: Value) -> Value | None:
        """Return the elements of `value` as a value of `graph`, if they are known sizes; None if they are not."""
        known = known_value(value)
        if known is None:
            return None
        given = known.reshape(-1).tolist()
        if value.known_dtype.is_float:
            given = [bits_of_real(each) if is_expression(each) else each for each in given]
        return self.add_sizes(graph, value, list(map(self.named, given)))

    def add_sizes(self, graph: Graph, value: Value, elements: list[Any]) -> Value:
        """Return a value of `graph` like `value`, whose elements are names or numbers."""
        attrs = {"elements": tuple(elements), "shape": value.static_shape, "dtype": value.known_dtype}
        return graph.add("sizes", [], attrs, name=value.name).output

    def _unused(self, name: str) -> str:
        while name in self.dims or name in self.told:
            name += "'"
        return name
