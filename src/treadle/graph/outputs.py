"""The outputs of a graph: a list that knows where each value stands in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from treadle.graph.value import Value


def _forgetting(name: str) -> Callable[..., Any]:
    """Return the method `name` of lists, after which the places are found anew."""
    method = getattr(list, name)

    def change(self: Outputs, *arguments: Any, **named: Any) -> Any:
        self._places = None
        return method(self, *arguments, **named)

    return change


class Outputs(list[Value]):
    """A list of values. Membership and replacement take the same time however long it is."""

    def __init__(self, values: Iterable[Value] = ()) -> None:
        super().__init__(values)
        self._places: dict[Value, list[int]] | None = None

    def __contains__(self, value: object) -> bool:
        return value in self._found()

    def replace(self, old: Value, new: Value) -> None:
        """Let `new` stand wherever `old` does."""
        places = self._found()
        if new is old or old not in places:
            return
        moved = places.pop(old)
        for place in moved:
            super().__setitem__(place, new)
        places.setdefault(new, []).extend(moved)

    def _found(self) -> dict[Value, list[int]]:
        """The places of each value."""
        if self._places is None:
            self._places = {}
            for place, value in enumerate(self):
                self._places.setdefault(value, []).append(place)
        return self._places

    def __setitem__(self, place: Any, value: Any) -> None:
        places = self._places
        if places is None or not isinstance(place, int):
            super().__setitem__(place, value)
            self._places = None
            return
        place = range(len(self))[place]
        places[self[place]].remove(place)
        if not places[self[place]]:
            del places[self[place]]
        places.setdefault(value, []).append(place)
        super().__setitem__(place, value)

    def append(self, value: Value) -> None:
        super().append(value)
        if self._places is not None:
            self._places.setdefault(value, []).append(len(self) - 1)

    insert, extend, remove, pop, clear, sort, reverse = map(
        _forgetting, ("insert", "extend", "remove", "pop", "clear", "sort", "reverse")
    )
    __delitem__, __iadd__, __imul__ = map(_forgetting, ("__delitem__", "__iadd__", "__imul__"))
