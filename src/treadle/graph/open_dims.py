"""What a model declares of its open dimensions: bounds, and sizes that follow from others."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import field
from typing import NamedTuple

from treadle.immutable import immutable
from treadle.records import dataclass


class Bounds(NamedTuple):
    """The sizes that a dimension may have: from `least` to `most`, which may be infinite."""

    least: int
    most: float

    def __str__(self) -> str:
        return f"at least {self.least}" if math.isinf(self.most) else f"from {self.least} to {self.most}"


@immutable
class Derived:
    """A dimension whose size is computed from others: `2*d`.

    `compute` takes the sizes of `symbols` in their order, numbers or expressions.
    """

    symbols: tuple[str, ...]
    compute: Callable[..., int]


@immutable
class Root:
    """A symbol that is no dimension itself: the one called `dim` has `times` * its size + `plus`."""

    dim: str
    times: int
    plus: int


class Place(NamedTuple):
    """Where a size was found: the input, and the axis."""

    size: int
    input: str
    axis: int


@dataclass(frozen=True, slots=True)
class OpenDims:
    """What is declared of dimensions, by name. A name of which nothing is declared is any size.

    Attributes:
        bounds: The sizes that symbols may have.
        derived: The dimensions that are computed from symbols.
        roots: The symbols that only occur in derived dimensions.
    """

    bounds: Mapping[str, Bounds] = field(default_factory=dict)
    derived: Mapping[str, Derived] = field(default_factory=dict)
    roots: Mapping[str, Root] = field(default_factory=dict)

    def symbols(self, sizes: Mapping[str, int]) -> dict[str, int] | None:
        """Return the sizes of the symbols, given those of all dimensions by name; None if they contradict each other.

        Bounds are not checked.
        """
        found = {name: size for name, size in sizes.items() if name not in self.derived}
        for name, root in self.roots.items():
            found[name], rest = divmod(sizes[root.dim] - root.plus, root.times)
            if rest or found[name] < 0:
                return None
        for name, derived in self.derived.items():
            if derived.compute(*(found[symbol] for symbol in derived.symbols)) != sizes[name]:
                return None
        return found

    def faults(self, places: Mapping[str, Place]) -> list[str]:
        """Return what is wrong with the sizes of dimensions, found at `places`: a sentence each."""
        if not self.bounds and not self.derived:
            return []
        faults: list[str] = []
        known: dict[str, tuple[int, Place]] = {
            name: (place.size, place) for name, place in places.items() if name not in self.derived
        }
        for name, root in self.roots.items():
            place = places.get(root.dim)
            if place is None:
                continue
            size, rest = divmod(place.size - root.plus, root.times)
            if rest or size < 0:
                faults.append(f"{_where(place, root.dim)}, which no {name} gives")
            else:
                known[name] = size, place
        for name, (size, place) in known.items():
            bounds = self.bounds.get(name)
            if bounds is not None and not bounds.least <= size <= bounds.most:
                given = "" if name not in self.roots else f", so {name} is {size}"
                dim = name if name not in self.roots else self.roots[name].dim
                faults.append(f"{_where(place, dim)}{given}; wanted {name} {bounds}")
        for name, derived in self.derived.items():
            place = places.get(name)
            if place is None or not all(symbol in known for symbol in derived.symbols):
                continue
            wanted = derived.compute(*(known[symbol][0] for symbol in derived.symbols))
            if wanted != place.size:
                others = " and ".join(
                    f"{symbol} is {known[symbol][0]} in input {known[symbol][1].input!r}" for symbol in derived.symbols
                )
                faults.append(f"{_where(place, name)}, but {others}: wanted {wanted}")
        return faults

    def without(self, symbols: Collection[str]) -> OpenDims:
        """Return the same without what is declared of these symbols and of the dimensions that they determine."""
        derived = {
            name: each for name, each in self.derived.items() if not any(symbol in symbols for symbol in each.symbols)
        }
        bounds = {name: each for name, each in self.bounds.items() if name not in symbols}
        return OpenDims(bounds, derived, {name: root for name, root in self.roots.items() if root.dim in derived})

    def sample(self, name: str, wanted: int) -> int:
        """Return the size within the bounds of the symbol `name` that is nearest to `wanted`."""
        bounds = self.bounds.get(name)
        return wanted if bounds is None else int(min(max(wanted, bounds.least), bounds.most))


NOTHING = OpenDims()
"""Nothing is declared."""


def _where(place: Place, dim: str) -> str:
    return f"input {place.input!r}: axis {place.axis} ({dim}) is {place.size}"
