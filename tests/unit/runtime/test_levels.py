"""The levels of thread control: process, pool, session, run, and which of them counts."""

from __future__ import annotations

import itertools
import threading
import time

import numpy as np
import pytest
from tests.models import small
from tests.unit.runtime.slow_models import X, python_tasks

import treadle
from treadle.errors import ThreadSettingError
from treadle.runtime.limits import Setting
from treadle.runtime.threads import Threads
from treadle.runtime.topology import Topology


@pytest.fixture(autouse=True)
def automatic_threads():
    yield
    treadle.threads.set(intra_op=0, inter_op=0)


class Gauge:
    """How many of its tasks were in progress at once, at most; each takes some `seconds`."""

    def __init__(self):
        self.inside = self.most = self.ended = 0
        self.seconds = 0.004
        self.changed = threading.Condition()

    def __call__(self):
        with self.changed:
            self.inside += 1
            self.most = max(self.most, self.inside)
        if self.seconds:
            time.sleep(self.seconds)
        with self.changed:
            self.inside -= 1
            self.ended += 1
            self.changed.notify_all()

    def wait_for(self, count, most=0, inside=1 << 30):
        """Wait until `count` more tasks have ended, `most` were in progress at once, and no more than `inside` are."""
        with self.changed:
            ended = self.ended + count
            self.changed.wait_for(lambda: self.ended >= ended and self.most >= most and self.inside <= inside)


def reaches(wanted, session, gauge, **arguments):
    """Whether `wanted` of a session's tasks are in progress at once sooner or later, and never more."""
    gauge.most = runs = 0
    while gauge.most < wanted or runs < 4:  # on a busy machine one run may see few of its workers come
        session.run(X, **arguments)
        runs += 1
    return gauge.most == wanted


def test_run_overrides_session_overrides_process():
    """
    Each level that sets a limit overrides the previous level, for its own runs only.
    """
    treadle.threads.set(intra_op=4, inter_op=4)
    gauge = Gauge()
    free = python_tasks([gauge] * 24)
    confined = python_tasks([gauge] * 24, inter_op=2)

    assert reaches(4, free, gauge)
    assert reaches(2, confined, gauge)
    assert reaches(1, confined, gauge, inter_op=1)
    assert reaches(3, confined, gauge, inter_op=3)
    assert reaches(2, free, gauge, inter_op=2)
    assert reaches(4, free, gauge)


def test_a_pool_has_limits_below_those_of_sessions_and_runs():
    """
    The pool's limits hold where neither session nor run sets a limit.
    """
    gauge = Gauge()
    pool = treadle.Pool(intra_op=1, inter_op=2)
    session = python_tasks([gauge] * 16, pool=pool)

    assert reaches(2, session, gauge)
    assert reaches(1, session, gauge, inter_op=1)
    pool.set(inter_op=1)
    assert reaches(1, session, gauge)


def test_a_sessions_limits_have_their_sources_and_may_change():
    """
    A change holds from the next run on; limits that the session does not set come from its pool or the process.
    """
    treadle.threads.set(intra_op=4, inter_op=4)
    gauge = Gauge()
    session = python_tasks([gauge] * 16, inter_op=1)
    assert (session.get().intra_op, session.get().inter_op) == (4, 1)
    assert (session.get().intra_source, session.get().inter_source) == ("set(intra_op=4)", "Session(inter_op=1)")
    assert reaches(1, session, gauge)
    session.set(inter_op=2)
    assert session.get().inter_source == "Session.set(inter_op=2)"
    assert reaches(2, session, gauge)
    with pytest.raises(ThreadSettingError, match=r"inter_op from Session.set\(inter_op=\)"):
        session.set(intra_op=1, inter_op=-1)
    assert (session.get().intra_op, session.get().inter_op) == (4, 2)
    session = python_tasks([gauge], pool=treadle.Pool(intra_op=3, inter_op=2))
    assert session.get().intra_source == "Pool(intra_op=3)"


@pytest.mark.parametrize("of", ["process", "pool", "block", "session", "run"])
def test_limits_change_in_the_middle_of_a_run(of):
    """
    Another thread raises and lowers the limits: ops that begin later obey them, and all ops are executed.
    """
    pool = treadle.Pool(intra_op=1, inter_op=1) if of == "pool" else None
    threads = treadle.threads if pool is None else pool
    threads.set(intra_op=1, inter_op=1)
    gauge = Gauge()
    session = python_tasks([gauge] * 1500, pool=pool)
    results = []
    if of in {"session", "run"}:
        threads.set(intra_op=4, inter_op=4)
        session.set(intra_op=1, inter_op=1)
    future = session.run_async(X) if of == "run" else None
    change = {"session": session.set, "run": getattr(future, "set_limits", None)}.get(of, threads.set)
    client = threading.Thread(target=lambda: results.append(future.result() if future else session.run(X)))
    client.start()
    gauge.wait_for(20)
    before = gauge.most
    if of == "block":
        with treadle.threads.limit(intra_op=3, inter_op=3):
            gauge.wait_for(20, most=3)
    else:
        change(intra_op=3, inter_op=3)
        gauge.wait_for(20, most=3)
        change(intra_op=1, inter_op=1)
    during = gauge.most
    gauge.wait_for(20, inside=1)
    gauge.most = 0
    gauge.wait_for(20)
    after = gauge.most
    gauge.seconds = 0
    client.join()

    assert (before, during, after) == (1, 3, 1)
    assert len(results[0]) == 1500


def test_limits_of_a_run_in_progress_override_those_of_its_session():
    """
    None keeps a limit and 0 is automatic; impossible values raise, and changes after the run's end have no effect.
    """
    go = threading.Event()
    session = python_tasks([go.wait], intra_op=2, inter_op=2)
    future = session.run_async(X)
    future.set_limits(intra_op=3)
    future.set_limits(inter_op=0)
    with pytest.raises(ThreadSettingError, match=r"inter_op from RunFuture\.set_limits\(inter_op=\)"):
        future.set_limits(intra_op=1, inter_op=-1)
    assert future._limits.get()[0] == 3
    assert future._limits.get()[1] >= 1
    session.set(intra_op=1)
    go.set()

    assert len(future.result(20)) == 1
    future.set_limits(intra_op=1)


def test_changes_during_runs_change_no_bit():
    """
    While another thread changes the limits of a session without a pause.
    """
    model = small.branches()
    session, inputs = treadle.Session(model), small.inputs_for(model)
    wanted = session.run(inputs)["y"]
    over = threading.Event()

    def change():
        for number in itertools.cycle([1, 4, 2, 3]):
            session.set(intra_op=number, inter_op=5 - number)
            if over.is_set():
                return

    changing = threading.Thread(target=change)
    changing.start()
    try:
        for _ in range(200):
            assert np.array_equal(session.run(inputs)["y"], wanted)
            future = session.run_async(inputs)
            future.set_limits(intra_op=2, inter_op=1)
            assert np.array_equal(future.result()["y"], wanted)
    finally:
        over.set()
        changing.join()


@pytest.mark.parametrize("value", [True, -1, 4097, 2.0, "4"])
def test_impossible_limits_of_a_run_are_refused(value):
    """
    The error names the setting, the value and the level; the session stays usable.
    """
    session = python_tasks([lambda: None])
    with pytest.raises(ThreadSettingError, match=r"intra_op from run\(intra_op=\)"):
        session.run(X, intra_op=value)
    assert session.run(X)


def test_limit_holds_inside_its_block():
    """
    Blocks nest, the innermost applies, and leaving a block restores the limits, also after an exception.
    """
    treadle.threads.set(intra_op=5, inter_op=4)
    with treadle.threads.limit(intra_op=2) as outer:
        assert (outer.intra_op, outer.inter_op) == (2, 4)
        assert outer.intra_source == "limit(intra_op=2)"
        with pytest.raises(KeyError, match="intra_op=1, inter_op=1"), treadle.threads.limit(intra_op=1, inter_op=1):
            raise KeyError(treadle.threads.get())
        assert treadle.threads.get().intra_op == 2
    settings = treadle.threads.get()

    assert (settings.intra_op, settings.inter_op) == (5, 4)
    assert settings.intra_source == "set(intra_op=5)"


def test_limit_reaches_runs():
    """
    It is the team's limit, not a note.
    """
    treadle.threads.set(intra_op=4, inter_op=4)
    gauge = Gauge()
    session = python_tasks([gauge] * 24)
    with treadle.threads.limit(inter_op=1, intra_op=1):
        assert reaches(1, session, gauge)
    assert reaches(4, session, gauge)


def test_blocks_of_several_threads_may_overlap():
    """
    Each takes back its own limit alone, in whatever order they end; set() inside stays.
    """
    subject = Threads("test", {}, lambda: Topology(online=8, allowed=6, quota=None, quota_source=None))
    first, second = subject.limit(intra_op=2), subject.limit(intra_op=3, inter_op=1)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert (subject.get().intra_op, subject.get().inter_op) == (3, 1)
    subject.set(intra_op=4)
    assert (subject.get().intra_op, subject.get().inter_op) == (4, 1)
    second.__exit__(None, None, None)

    assert (subject.get().intra_op, subject.get().inter_op) == (4, 6)
    with pytest.raises(ThreadSettingError, match=r"intra_op from limit\(intra_op=\)"), subject.limit(intra_op=-1):
        pass
    assert subject.setting("inter_op") == Setting(6, "automatic (default): affinity mask, 6 of 8 CPUs")
