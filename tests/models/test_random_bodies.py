"""Random models of nested branches, loops and scans, in whose bodies data and the iteration decide sizes.

Every result is what another engine computes, with the same bits at all numbers of threads, and no step runs in Python.
"""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import treadle
from tests.models.random_bodies import Array, random_feeds, random_model
from tests.models.test_data_loops import assert_in_the_run
from treadle.frontends.onnx.reference_loop import reference_loop

POOLS = {threads: treadle.Pool(intra_op=threads, inter_op=threads) for threads in (1, 2)}
SEEDS = (2, 15, 24, 32, 45, 55)
"""Models with all forms of bodies, whose sizes become 0 in some iterations."""


def reference(model: onnx.ModelProto, feeds: dict[str, Array]) -> Array:
    """The result by the reference of the onnx package."""
    return np.asarray(next(iter(ReferenceEvaluator(model, new_ops=[reference_loop()]).run(None, feeds))))


@pytest.mark.parametrize("seed", SEEDS)
def test_bodies_find_sizes(seed: int) -> None:
    model = random_model(seed)
    session = treadle.Session(model)
    for feeds in random_feeds(seed):
        wanted = reference(model, feeds)
        for pool in POOLS.values():
            (found,) = session.run(feeds, pool=pool).values()
            assert (found.shape, found.dtype, found.tobytes()) == (wanted.shape, wanted.dtype, wanted.tobytes())
    assert_in_the_run(session)
