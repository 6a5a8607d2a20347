"""Storage of lists: versions that share values behave like copies."""

from __future__ import annotations

import gc
import random
import weakref

import numpy as np
import pytest

from treadle.dtypes import f32
from treadle.errors import KernelError
from treadle.frontends.tensorflow.list_storage import ListStorage
from treadle.frontends.tensorflow.lists import TensorList

ARRAYS = [np.full(2, number, np.float32) for number in range(64)]


def _changed(items: ListStorage, expected: list, cleared: set, rng: random.Random) -> tuple[ListStorage, list, set]:
    """Return a new version after one random change, and the items and cleared indices it must have."""
    count, value, expected, cleared = len(expected), rng.choice(ARRAYS), list(expected), set(cleared)
    change = rng.choice(("write", "push", "pop", "lengthen") if count else ("push",))
    number = {"write": rng.randrange(count or 1), "push": count, "pop": count - 1, "lengthen": count + 2}[change]
    newer = items.derive(number)
    if change == "push":
        newer.append(value)
        expected.append(value)
    elif change == "pop":
        newer.pop()
        expected.pop()
    else:
        if change == "lengthen":
            newer.extend_to(number + 1)
            expected.extend([None] * (number + 1 - count))
        newer[number] = value
        expected[number] = value
    return newer, expected, cleared


@pytest.mark.parametrize("seed", range(20))
def test_each_version_keeps_its_items(seed):
    """
    A random history of writes, clearing reads, copies and changes of older versions gives what plain lists give.
    """
    rng = random.Random(seed)
    start: list = [None, ARRAYS[0], ARRAYS[1], None, ARRAYS[2]]
    versions = [(ListStorage(list(start)), start, set())]
    for _ in range(60):
        items, expected, cleared = rng.choice(versions[-3:]) if rng.random() < 0.8 else rng.choice(versions)
        draw = rng.random()
        if draw < 0.7:
            versions.append(_changed(items, expected, cleared, rng))
        elif draw < 0.8:
            versions.append((items.copy(), list(expected), set(cleared)))
        elif expected:
            number = rng.randrange(len(expected))
            items.clear(number)
            expected[number] = None
            cleared.add(number)
        if len(versions) > 8:
            del versions[rng.randrange(8)]
        for items, expected, cleared in versions:
            assert len(items) == len(expected)
            assert all(items[number] is value for number, value in enumerate(expected))
            assert all(found is value for found, value in zip(items.to_list(), expected, strict=True))
            assert [number for number in range(len(expected)) if items.is_cleared(number)] == [
                number for number in range(len(expected)) if number in cleared
            ]


def test_a_write_copies_nothing_if_older_versions_are_released():
    """
    A hundred writes, each to the newest version, use one Python list.
    """
    items = ListStorage([None] * 100)
    values = items.values

    for number in range(100):
        items = items.derive(number)
        items[number] = ARRAYS[0]

    assert items.values is values


def test_an_older_version_does_not_keep_overwritten_items():
    """
    The initial list of a loop lives as long as the run; it must not keep the items that steps wrote and replaced.
    """
    first = ListStorage([ARRAYS[0]])
    items, replaced = first, []
    for _ in range(10):
        items = items.derive(0)
        value = np.zeros(1, np.float32)
        replaced.append(weakref.ref(value))
        items[0] = value
        del value
    gc.collect()

    assert [ref() is None for ref in replaced] == [True] * 9 + [False]
    assert first[0] is ARRAYS[0]


def test_a_rejected_write_leaves_the_list_unchanged():
    """
    After a write with a wrong index or shape fails, other nodes still read the list.
    """
    held = TensorList(f32, (2,), [ARRAYS[0], None])

    with pytest.raises(KernelError, match="Trying to modify element 5 in a list with 2 elements"):
        held.derive(5).set(5, ARRAYS[1])
    with pytest.raises(KernelError, match="incompatible with the list's element shape"):
        held.derive(0).set(0, np.zeros(3, np.float32))

    assert held.items.to_list()[0] is ARRAYS[0]
    assert held.get(0) is ARRAYS[0]
