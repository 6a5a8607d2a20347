"""Idle workers: how long they spin, the variable that sets it, and the CPU time that it costs."""

from __future__ import annotations

import math
import time

import pytest
from tests.unit.runtime.slow_models import X, python_tasks
from tests.unit.runtime.test_levels import Gauge

from treadle import Pool
from treadle.errors import ThreadSettingError
from treadle.runtime.limits import Setting
from treadle.runtime.spinning import spin_from_environment
from treadle.runtime.threads import Threads


@pytest.mark.parametrize(
    ("environment", "microseconds", "source"),
    [
        ({}, 50, "default"),
        ({"TREADLE_SPIN_US": "7"}, 7, "TREADLE_SPIN_US"),
        ({"TREADLE_SPIN_US": "0", "KMP_BLOCKTIME": "5"}, 0, "TREADLE_SPIN_US"),
        ({"KMP_BLOCKTIME": "200"}, 200_000, "KMP_BLOCKTIME"),
        ({"KMP_BLOCKTIME": "30us"}, 30, "KMP_BLOCKTIME"),
        ({"KMP_BLOCKTIME": "2s"}, 2e6, "KMP_BLOCKTIME"),
        ({"KMP_BLOCKTIME": "infinite", "OMP_WAIT_POLICY": "passive"}, math.inf, "KMP_BLOCKTIME"),
        ({"OMP_WAIT_POLICY": "PASSIVE"}, 0, "OMP_WAIT_POLICY"),
        ({"OMP_WAIT_POLICY": "active"}, math.inf, "OMP_WAIT_POLICY"),
    ],
)
def test_variables_have_an_order(environment, microseconds, source):
    """
    treadle's own, then KMP_BLOCKTIME in milliseconds, then the policy.
    """
    assert spin_from_environment(environment) == Setting(microseconds, source)


@pytest.mark.parametrize(
    ("variable", "text"),
    [("TREADLE_SPIN_US", "-1"), ("TREADLE_SPIN_US", "fast"), ("TREADLE_SPIN_US", "nan"), ("TREADLE_SPIN_US", "1_0"),
     ("TREADLE_SPIN_US", "1e400"), ("TREADLE_SPIN_US", "9" * 20), ("KMP_BLOCKTIME", "-3"), ("KMP_BLOCKTIME", "1h"),
     ("KMP_BLOCKTIME", "x"), ("KMP_BLOCKTIME", "5mus"), ("KMP_BLOCKTIME", "9" * 15), ("OMP_WAIT_POLICY", "maybe")],
)  # fmt: skip
def test_impossible_values_are_refused(variable, text):
    """
    The error names variable and value, when the team is first asked for.
    """
    with pytest.raises(ThreadSettingError, match=f"spin_us from environment variable {variable}") as caught:
        Threads("test", {variable: text}).team()
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize("value", [-1, "1", True, math.nan, 1e30])
def test_impossible_spins_are_refused_when_set(value):
    """
    The settings stay the same.
    """
    subject = Threads("test", {})
    with pytest.raises(ThreadSettingError, match=r"spin_us from set\(spin_us=\)"):
        subject.set(spin_us=value)
    assert subject.setting("spin_us").source == "default"


def test_the_team_follows():
    """
    A change reaches the team and its idle threads at once.
    """
    pool = Pool(intra_op=3, inter_op=3)
    pool.set(spin_us=math.inf)
    session = python_tasks([Gauge()] * 24, pool=pool)
    assert pool.threads.team().spin_us > 1e9
    while pool.threads.status()["spinning"] == 0:
        session.run(X)
    pool.set(spin_us=0)
    assert pool.threads.team().spin_us == 0
    while pool.threads.status()["spinning"] > 0:
        time.sleep(0.001)


def test_an_idle_process_uses_less_than_half_a_percent_of_a_core():
    """
    With the default spin, after a run on several workers.
    """
    pool = Pool(intra_op=4, inter_op=4)
    session = python_tasks([Gauge()] * 24, pool=pool)
    session.run(X)

    def used() -> float:
        before = time.process_time()
        time.sleep(1)
        return time.process_time() - before

    assert any(used() < 0.005 for _ in range(5)), "once a worker was slow to come to rest, but not always"
