"""Which values may be in use at the same time."""

from __future__ import annotations

import random

import pytest

from treadle.graph.value import Value
from treadle.passes import lifetimes
from treadle.passes.lifetimes import Lifetimes


def random_calls(seed: int) -> tuple[list[Value], dict[Value, list[int]], dict[Value, list[int]], list[set[int]]]:
    """Values, the calls that use them, those that write them, and what calls wait for: chains, fans and both."""
    draw = random.Random(seed)
    reach = draw.choice([1, 2, 3, 60])
    values: list[Value] = []
    users: dict[Value, list[int]] = {}
    writers: dict[Value, list[int]] = {}
    after: list[set[int]] = []
    for number in range(draw.randrange(2, 60)):
        reads = [draw.choice(values[-reach:]) for _ in range(draw.choice([0, 1, 1, 2]))] if values else []
        after.append({writer for value in reads for writer in writers[value]})
        for value in reads:
            users[value].append(number)
        if values and draw.random() < 0.1:
            users[values[-1]].append(number)
            writers[values[-1]].append(number)
        made = Value(f"v{number}")
        values.append(made)
        users[made], writers[made] = [number], [number]
    return values, users, writers, after


def chain(count: int) -> tuple[list[Value], dict[Value, list[int]], dict[Value, list[int]], list[set[int]]]:
    values = [Value(f"v{number}") for number in range(count)]
    users = {value: [number, min(number + 1, count - 1)] for number, value in enumerate(values)}
    writers = {value: [number] for number, value in enumerate(values)}
    return values, users, writers, [{number - 1} if number else set() for number in range(count)]


def test_rivals_are_the_values_that_no_path_orders() -> None:
    """
    A value precedes another if every call that uses it precedes every call that writes the other.
    """
    for seed in range(200):
        values, users, writers, after = random_calls(seed)
        earlier: list[set[int]] = []
        for before in after:
            earlier.append(set(before).union(*(earlier[other] for other in before)))

        def precedes(one, other, users=users, writers=writers, earlier=earlier):
            return all(set(users[one]) <= earlier[writer] for writer in writers[other])

        found = Lifetimes(values, users, writers, after)
        for value in values:
            wanted = [o for o in values if o is not value and not precedes(value, o) and not precedes(o, value)]
            assert list(found.rivals(value)) == wanted, seed


def test_values_of_a_long_chain_meet_only_their_neighbours() -> None:
    values, *rest = chain(30_000)
    found = Lifetimes(values, *rest)
    assert list(found.rivals(values[20_000])) == [values[19_999], values[20_001]]


def test_calls_of_a_section_that_is_too_long_all_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Two chains side by side are one section; each call of a single chain is one of its own.
    """
    values = [Value(f"v{number}") for number in range(6)]
    users = {value: [number, *([number + 2] if number < 4 else [])] for number, value in enumerate(values)}
    writers = {value: [number] for number, value in enumerate(values)}
    side_by_side = values, users, writers, [{number - 2} if number >= 2 else set() for number in range(6)]
    ordered = list(Lifetimes(*side_by_side).rivals(values[0]))
    monkeypatch.setattr(lifetimes, "MAX_ORDERED_CALLS", 0)
    met = list(Lifetimes(*side_by_side).rivals(values[0]))
    line, *rest = chain(4)

    assert ordered == [values[1], values[2], values[3], values[5]]
    assert met == values[1:]
    assert list(Lifetimes(line, *rest).rivals(line[0])) == [line[1]]
