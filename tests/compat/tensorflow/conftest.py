"""Each test starts as a fresh program would: eager, with an empty default graph and no first session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import treadle
import treadle.compat.tensorflow as tf
from treadle.compat.tensorflow import devices
from treadle.compat.tensorflow.threading import reset_first_session


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    yield
    tf.compat.v1.enable_eager_execution()
    tf.compat.v1.reset_default_graph()
    reset_first_session()
    devices.set_soft_device_placement(True)
    devices.set_logical_cpus(1)
    treadle.threads.set(intra_op=0, inter_op=0)
