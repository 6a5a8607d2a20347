"""The items of lists: what goes from list to list without being copied is as if it had been."""

from __future__ import annotations

import gc
import random
import weakref

import numpy as np
import pytest

from treadle.dtypes import f32
from treadle.errors import KernelError
from treadle.frontends.tensorflow.items import Items
from treadle.frontends.tensorflow.lists import TensorList

MADE = [np.full(2, number, np.float32) for number in range(64)]


def _changed(items: Items, plain: list, gone: set, chance: random.Random) -> tuple[Items, list, set]:
    """The items after one change of those that steps make, and what they are as plain lists."""
    count, value, plain, gone = len(plain), chance.choice(MADE), list(plain), set(gone)
    how = chance.choice(("write", "push", "pop", "lengthen") if count else ("push",))
    number = {"write": chance.randrange(count or 1), "push": count, "pop": count - 1, "lengthen": count + 2}[how]
    made = items.handed_on(number)
    if how == "push":
        made.append(value)
        plain.append(value)
    elif how == "pop":
        made.drop()
        plain.pop()
    else:
        if how == "lengthen":
            made.lengthen(number + 1)
            plain.extend([None] * (number + 1 - count))
        made[number] = value
        plain[number] = value
    return made, plain, gone


@pytest.mark.parametrize("seed", range(20))
def test_every_list_keeps_what_it_had(seed):
    """
    Any history of writes, of reads that clear, of copies and of changes to older lists, beside lists that are copied each time.
    """
    chance = random.Random(seed)
    start: list = [None, MADE[0], MADE[1], None, MADE[2]]
    kept = [(Items(list(start)), start, set())]
    for _ in range(60):
        items, plain, gone = chance.choice(kept[-3:]) if chance.random() < 0.8 else chance.choice(kept)
        what = chance.random()
        if what < 0.7:
            kept.append(_changed(items, plain, gone, chance))
        elif what < 0.8:
            kept.append((items.copy(), list(plain), set(gone)))
        elif plain:
            number = chance.randrange(len(plain))
            items.take(number)
            plain[number] = None
            gone.add(number)
        if len(kept) > 8:
            del kept[chance.randrange(8)]
        for items, plain, gone in kept:
            assert len(items) == len(plain)
            assert all(items[number] is value for number, value in enumerate(plain))
            assert all(found is value for found, value in zip(items.listed(), plain, strict=True))
            assert [number for number in range(len(plain)) if items.is_gone(number)] == [
                number for number in range(len(plain)) if number in gone
            ]


def test_a_write_copies_nothing_while_nobody_keeps_the_lists_before():
    """
    The values are in one list from the first write to the last.
    """
    items = Items([None] * 100)
    values = items.values

    for number in range(100):
        items = items.handed_on(number)
        items[number] = MADE[0]

    assert items.values is values


def test_what_was_overwritten_is_not_kept_for_a_list_that_is_still_there():
    """
    The first list of a loop lives as long as its run: it must not hold all that the steps wrote and replaced.
    """
    first = Items([MADE[0]])
    items, replaced = first, []
    for _ in range(10):
        items = items.handed_on(0)
        value = np.zeros(1, np.float32)
        replaced.append(weakref.ref(value))
        items[0] = value
        del value
    gc.collect()

    assert [ref() is None for ref in replaced] == [True] * 9 + [False]
    assert first[0] is MADE[0]


def test_a_write_that_is_refused_leaves_the_list_as_it_was():
    """
    By its number, or its shape: an error of one node, after which others still read the list.
    """
    held = TensorList(f32, (2,), [MADE[0], None])

    with pytest.raises(KernelError, match="Trying to modify element 5 in a list with 2 elements"):
        held.handed_on(5).set(5, MADE[1])
    with pytest.raises(KernelError, match="incompatible with the list's element shape"):
        held.handed_on(0).set(0, np.zeros(3, np.float32))

    assert held.items.listed()[0] is MADE[0]
    assert held.get(0) is MADE[0]
