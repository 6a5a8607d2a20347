"""Python's garbage collector runs rarely while a model is compiled, and as before afterwards."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator

import pytest

from treadle.garbage import RARE, rare_collections

USUAL = (700, 10, 10)


@pytest.fixture(autouse=True)
def thresholds() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(*USUAL)
    yield
    gc.set_threshold(*before)


def test_blocks_nest() -> None:
    """
    The outermost one restores the thresholds, also after an error.
    """

    def fail() -> None:
        with rare_collections():
            with rare_collections():
                assert gc.get_threshold() == RARE
            assert gc.get_threshold() == RARE
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert gc.get_threshold() == USUAL


@pytest.mark.parametrize("own", [(0, 10, 10), (1_000_000, 10, 10)])
def test_a_program_may_collect_still_less(own: tuple[int, int, int]) -> None:
    """
    0 is never.
    """
    gc.set_threshold(*own)
    with rare_collections():
        assert gc.get_threshold() == own
    assert gc.get_threshold() == own


def test_what_a_program_sets_meanwhile_stays() -> None:
    with rare_collections():
        gc.set_threshold(5, 5, 5)
    assert gc.get_threshold() == (5, 5, 5)


def test_a_child_of_a_fork_collects_as_before() -> None:
    with rare_collections():
        child = os.fork()
        if child == 0:
            os._exit(0 if gc.get_threshold() == USUAL else 1)
        assert os.waitpid(child, 0)[1] == 0
    assert gc.get_threshold() == USUAL
