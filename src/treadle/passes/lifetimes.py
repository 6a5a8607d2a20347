"""When values are in use: between the calls that write and read them, as far as paths of dependencies order these.

A call that every other call precedes or follows splits the calls before it from those behind. So the bits that say
which calls precede which are kept within the sections between such calls, and the work grows with the calls, unless
they all may run at the same time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from treadle.graph.value import Value
from treadle.records import dataclass

MAX_ORDERED_CALLS = 1 << 14
"""In a section of more calls than this none counts as preceding another: their order would not fit in memory."""


@dataclass(frozen=True, slots=True)
class _Lifetime:
    """The first and last section in which a value is used, and the calls of the last one that use it, as bits.

    `ended` has for each call that writes the value its section and which calls of that precede it, as bits.
    """

    first: int
    last: int
    uses: int
    ended: tuple[tuple[int, int], ...]

    def precedes(self, other: _Lifetime) -> bool:
        """Whether paths lead from all uses of this value to every call that writes the `other`."""
        last, uses = self.last, self.uses
        for section, earlier in other.ended:  # noqa: SIM110 - asked of all pairs of values, and a loop is faster
            if last > section or (last == section and uses & ~earlier):
                return False
        return True


class Lifetimes:
    """The lifetimes of `values`."""

    def __init__(
        self,
        values: Sequence[Value],
        users: Mapping[Value, Sequence[int]],
        writers: Mapping[Value, Sequence[int]],
        after: Sequence[set[int]],
    ) -> None:
        """Args:
        values: The values, in some order.
        users: For each value the numbers of the calls that read or write it.
        writers: For each value the numbers of the calls that write it.
        after: For each call the numbers of the calls that it waits for, in topological order.
        """
        self._order = {value: number for number, value in enumerate(values)}
        section, starts = _sections(after)
        earlier = _earlier(after, section, starts)
        self._of: dict[Value, _Lifetime] = {}
        self._in_section: dict[int, list[Value]] = {}
        for value in values:
            used = [section[number] for number in users[value]]
            first, last = min(used), max(used)
            bits = (1 << number - starts[last] for number in set(users[value]) if section[number] == last)
            ended = tuple((section[number], earlier[number]) for number in writers[value])
            self._of[value] = _Lifetime(first, last, sum(bits), ended)
            for number in range(first, last + 1):
                self._in_section.setdefault(number, []).append(value)

    def rivals(self, value: Value) -> Iterator[Value]:
        """Yield the values that may be in use at the same time as `value`, in order."""
        lifetime = self._of[value]
        for other in self._near(lifetime):
            found = self._of[other]
            if other is not value and not lifetime.precedes(found) and not found.precedes(lifetime):
                yield other

    def _near(self, lifetime: _Lifetime) -> Iterable[Value]:
        """The values that are used in a section of `lifetime`, in order."""
        if lifetime.first == lifetime.last:
            return self._in_section[lifetime.first]
        sections = range(lifetime.first, lifetime.last + 1)
        found = {value for number in sections for value in self._in_section[number]}
        return sorted(found, key=self._order.__getitem__)


def _sections(after: Sequence[set[int]]) -> tuple[list[int], list[int]]:
    """Return the section of each call, and the first call of each section.

    A call that precedes or follows every other is a section of its own.
    """
    readers: list[set[int]] = [set() for _ in after]
    for number, before in enumerate(after):
        for other in before:
            readers[other].add(number)
    numbers = range(len(after))
    splits = _reached(numbers, after) & _reached(reversed(numbers), readers)
    section: list[int] = []
    starts: list[int] = []
    for number in numbers:
        if number in splits or number == 0 or number - 1 in splits:
            starts.append(number)
        section.append(len(starts) - 1)
    return section, starts


def _reached(order: Iterable[int], links: Sequence[set[int]]) -> set[int]:
    """Return the calls to which paths of `links` lead from all that stand before them in `order`."""
    ends: set[int] = set()
    found = set()
    for number in order:
        ends -= links[number]
        ends.add(number)
        if len(ends) == 1:
            found.add(number)
    return found


def _earlier(after: Sequence[set[int]], section: Sequence[int], starts: Sequence[int]) -> list[int]:
    """Return for each call those of its section that precede it, as bits."""
    ends = [*starts[1:], len(after)]
    earlier: list[int] = []
    for number, before in enumerate(after):
        here = section[number]
        start = starts[here]
        mask = 0
        if ends[here] - start <= MAX_ORDERED_CALLS:
            for other in before:
                if other >= start:
                    mask |= earlier[other] | 1 << other - start
        earlier.append(mask)
    return earlier
