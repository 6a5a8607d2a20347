"""Parallelism of a graph of independent products and sums, measured by its trace."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

import treadle.compat.tensorflow as tf
import treadle.compat.tensorflow.compat.v1 as tf1
from treadle.tracing.record import Event, record

SIZE = 512
LEAST_RUNS = 5
"""Runs looked at, or more: where other processes want the CPUs too, not every run shows all it may do."""


def most_at_once(events: Sequence[Event], what: Callable[[Event], object]) -> int:
    """The largest number of different things that were under way at one moment."""
    moments = [event.start for event in events]
    return max(len({what(e) for e in events if e.start <= moment < e.end}) for moment in moments)


def seen(events: Sequence[Event]) -> tuple[int, int, int]:
    """Ops in flight, workers in one op, and workers in all, each the most at one moment."""
    nodes = {event.node for event in events}
    in_one = max(most_at_once([e for e in events if e.node == node], lambda e: e.worker) for node in nodes)
    return most_at_once(events, lambda e: e.node), in_one, most_at_once(events, lambda e: e.worker)


@pytest.mark.parametrize(("intra", "inter"), [(1, 1), (2, 1), (1, 2), (2, 2), (3, 1), (1, 3), (3, 2), (2, 3)])
def test_ops_in_progress_and_workers_per_op_reach_their_limits(intra: int, inter: int) -> None:
    """
    Never more than inter_op ops and intra_op workers an op, in all never more workers than max(intra_op, inter_op);
    each of these is reached, and the results are the same at every setting.
    """
    x = np.random.default_rng(3).standard_normal((SIZE, SIZE)).astype(np.float32)
    most = (0, 0, 0)
    with tf.Graph().as_default() as graph:
        place = tf1.placeholder(tf.float32, [SIZE, SIZE])
        weights = [tf.constant(x + number) for number in range(4)]
        fetches = [tf.matmul(place, w) for w in weights] + [tf.reduce_sum(w * place, axis=0) for w in weights]
    with tf1.Session(graph=graph, config=numbers(1, 1)) as session:
        wanted = session.run(fetches, {place: x})
    with tf1.Session(graph=graph, config=numbers(intra, inter)) as session:
        found = session.run(fetches, {place: x})
        runs = 0
        while runs < LEAST_RUNS or most != (inter, intra, max(intra, inter)):  # on a busy machine workers come late
            runs += 1
            with record() as recording:
                session.run(fetches, {place: x})
            now = seen(recording.events)
            assert now[0] <= inter
            assert now[1] <= intra
            assert now[2] <= max(intra, inter)
            most = tuple(map(max, most, now))

    for array, before, number in zip(found[:4], wanted, range(4), strict=False):
        np.testing.assert_allclose(array, x @ (x + number), rtol=1e-3, atol=1e-2)
        np.testing.assert_array_equal(array, before)
    for array, before in zip(found[4:], wanted[4:], strict=True):
        np.testing.assert_array_equal(array, before)


def numbers(intra: int, inter: int) -> tf1.ConfigProto:
    """Threads of the session's own."""
    return tf1.ConfigProto(
        intra_op_parallelism_threads=intra, inter_op_parallelism_threads=inter, use_per_session_threads=True
    )
