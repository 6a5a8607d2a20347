"""The cache from which the least recently used entries are dropped."""

from __future__ import annotations

import gc
import os
import random
import signal
import threading
import weakref
from collections import OrderedDict

import pytest

from treadle.lru import LRU


class Value:
    """A value that can be referenced weakly."""


def test_least_recently_used_entry_is_dropped() -> None:
    """
    Both get() and put() count as use.
    """
    cache: LRU[str, int] = LRU(3)
    for number, key in enumerate("abc"):
        cache.put(key, number)
    assert cache.get("a") == 0
    cache.put("b", 10)
    cache.put("d", 3)

    assert [cache.get(key) for key in "abcd"] == [0, 10, None, 3]
    assert len(cache) == 3


@pytest.mark.parametrize("capacity", [1, 2, 7])
def test_agrees_with_an_ordered_dict(capacity: int) -> None:
    """
    The order of use is exact, whatever the order of calls.
    """
    cache: LRU[int, int] = LRU(capacity)
    reference: OrderedDict[int, int] = OrderedDict()
    rng = random.Random(capacity)
    for step in range(2000):
        key = rng.randrange(12)
        if rng.random() < 0.5:
            cache.put(key, step)
            reference[key] = step
            reference.move_to_end(key)
            while len(reference) > capacity:
                reference.popitem(last=False)
        else:
            assert cache.get(key) == reference.get(key)
            if key in reference:
                reference.move_to_end(key)
        if rng.random() < 0.01:
            cache.clear()
            reference.clear()

        assert cache.values() == list(reference.values())
        assert len(cache) == len(reference)


def test_a_missing_key_gives_the_default() -> None:
    """
    None is a value like others, so the caller may name what stands for no entry.
    """
    cache: LRU[str, int | None] = LRU(2)
    cache.put("none", None)
    missing = object()

    assert cache.get("none", missing) is None
    assert cache.get("other", missing) is missing
    assert cache.get("other") is None


def test_values_are_freed_when_they_are_dropped() -> None:
    """
    By eviction, replacement and clear().
    """
    cache: LRU[int, Value] = LRU(2)
    held = []
    for key in (0, 1, 2, 2):
        value = Value()
        held.append(weakref.ref(value))
        cache.put(key, value)
        del value
    gc.collect()
    assert [each() is None for each in held] == [True, False, True, False]

    cache.clear()
    gc.collect()

    assert [each() for each in held] == [None] * 4
    assert len(cache) == 0


def test_destructors_of_values_may_use_the_cache() -> None:
    """
    A dropped value is destroyed after the change is complete.
    """
    cache: LRU[int, object] = LRU(2)
    seen = []

    class Noisy:
        def __del__(self) -> None:
            seen.append(len(cache))
            cache.put(100, None)

    cache.put(0, Noisy())
    for key in (1, 2, 3):
        cache.put(key, key)

    assert seen == [2]
    assert len(cache) == 2


def test_threads_share_a_cache() -> None:
    """
    A hit is always the value that was put for the key, and the capacity holds at the end.
    """
    cache: LRU[int, int] = LRU(16)
    wrong = []

    def work(seed: int) -> None:
        rng = random.Random(seed)
        for _ in range(5000):
            key = rng.randrange(40)
            if cache.get(key, -key) not in (key * key, -key):
                wrong.append(key)
            cache.put(key, key * key)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert not wrong
    assert len(cache) == 16


def test_a_forked_child_can_change_the_cache() -> None:
    """
    Its lock is free there although another thread of the parent held it.
    """
    cache: LRU[int, int] = LRU(4)
    stop = threading.Event()

    def churn() -> None:
        key = 0
        while not stop.is_set():
            key += 1
            cache.put(key, key)

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        for _ in range(10):
            child = os.fork()
            if child == 0:
                signal.alarm(30)
                try:
                    for key in range(1000, 1100):
                        cache.put(key, key)
                    os._exit(cache.get(1099) != 1099)
                finally:
                    os._exit(1)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.set()
        thread.join()
