"""Random models of nested branches, loops and scans, in whose bodies data and the iteration decide sizes.

Every result is what another engine computes, with the same bits at all numbers of threads, and no step runs in Python.
"""

from __future__ import annotations

import pytest

import treadle
from tests.models.expected import reference_results
from tests.models.random_bodies import random_feeds, random_model
from tests.models.test_data_loops import POOLS, assert_in_the_run

SEEDS = (2, 15, 24, 32, 45, 55)
"""Models with all forms of bodies, whose sizes become 0 in some iterations."""


@pytest.mark.parametrize("seed", SEEDS)
def test_bodies_find_sizes(seed: int) -> None:
    model = random_model(seed)
    session = treadle.Session(model)
    for feeds in random_feeds(seed):
        (wanted,) = reference_results(model, feeds)
        for pool in POOLS.values():
            (found,) = session.run(feeds, pool=pool).values()
            assert (found.shape, found.dtype, found.tobytes()) == (wanted.shape, wanted.dtype, wanted.tobytes())
    assert_in_the_run(session)
