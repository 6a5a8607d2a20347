"""Thread settings: precedence, sources, refusals."""

import os
import re
import subprocess
import sys
import threading

import numpy as np
import pytest

from treadle.errors import ThreadSettingError
from treadle.runtime.session_limits import SessionLimits
from treadle.runtime.threads import Threads, ThreadSettings
from treadle.runtime.topology import Topology

SIX = Topology(online=8, allowed=6, quota=None, quota_source=None)


def threads(**environment):
    return Threads("test", environment, lambda: SIX)


def values(settings):
    return settings.intra_op, settings.inter_op


def test_automatic_is_what_is_available():
    """
    With nothing set both limits are the available CPUs, and say why.
    """
    settings = threads().get()

    assert values(settings) == (6, 6)
    assert settings.intra_source == "automatic (default): affinity mask, 6 of 8 CPUs"


@pytest.mark.parametrize(
    ("environment", "expected", "source"),
    [
        ({"OMP_NUM_THREADS": "3"}, 3, "OMP_NUM_THREADS"),
        ({"OMP_NUM_THREADS": "4,2,1"}, 4, "OMP_NUM_THREADS"),
        ({"OMP_NUM_THREADS": "3", "MKL_NUM_THREADS": "2"}, 2, "MKL_NUM_THREADS"),
        ({"MKL_NUM_THREADS": "2", "TREADLE_INTRA_OP_THREADS": "5"}, 5, "TREADLE_INTRA_OP_THREADS"),
        ({"MKL_NUM_THREADS": " ", "TREADLE_INTRA_OP_THREADS": ""}, 6, "automatic (default)"),
        ({"OMP_NUM_THREADS": "3", "TREADLE_INTRA_OP_THREADS": "0"}, 6, "automatic (TREADLE_INTRA_OP_THREADS)"),
    ],
)
def test_environment_variables_have_an_order(environment, expected, source):
    """
    TREADLE_* before MKL before OMP; empty ones do not count; 0 is automatic.
    """
    settings = threads(**environment).get()

    assert values(settings) == (expected, 6)
    assert settings.intra_source.startswith(source)


def test_inter_op_has_one_variable():
    """
    The variables of OpenMP and MKL say nothing of inter_op.
    """
    settings = threads(TREADLE_INTER_OP_THREADS="2", OMP_NUM_THREADS="1").get()

    assert values(settings) == (1, 2)
    assert settings.inter_source == "TREADLE_INTER_OP_THREADS"


def test_set_wins_over_the_environment_one_limit_at_a_time():
    """
    set() changes what it names and nothing else.
    """
    subject = threads(TREADLE_INTRA_OP_THREADS="5", TREADLE_INTER_OP_THREADS="2")

    subject.set(inter_op=3)

    assert subject.get() == ThreadSettings(5, 3, "TREADLE_INTRA_OP_THREADS", "set(inter_op=3)")

    subject.set(intra_op=0)

    assert values(subject.get()) == (6, 3)


def test_the_team_follows():
    """
    The team has the limits from its making on, and later ones at once.
    """
    subject = threads(TREADLE_INTRA_OP_THREADS="5")
    team = subject.team()

    assert team.limits == (5, 6)

    subject.set(intra_op=2, inter_op=1)

    assert team.limits == (2, 1)
    assert subject.team() is team
    team.close()


@pytest.mark.parametrize("value", [True, -1, 4097, 2.0, "4", np.float32(1), [1]])
def test_impossible_values_are_refused_when_set_and_change_nothing(value):
    """
    The message names setting, value and source.
    """
    subject = threads()

    with pytest.raises(
        ThreadSettingError, match=r"inter_op from set\(inter_op=\): wanted an int in 0\.\.4096"
    ) as caught:
        subject.set(intra_op=1, inter_op=value)

    assert repr(value) in str(caught.value)
    assert values(subject.get()) == (6, 6)


@pytest.mark.parametrize(
    ("variable", "text"),
    [("TREADLE_INTRA_OP_THREADS", text) for text in ("abc", "-2", "5000", "2.5", "1,2", "0x2", "1_0", "٣", "9" * 5000)]
    + [
        ("MKL_NUM_THREADS", "2,2"),
        ("OMP_NUM_THREADS", "4,abc"),
        ("OMP_NUM_THREADS", "4,"),
        ("OMP_NUM_THREADS", "4,-1"),
    ],
)
def test_impossible_environment_values_are_refused_when_read(variable, text):
    """
    They are not ignored and do not end the process; of a list each number counts.
    """
    subject = threads(**{variable: text})

    with pytest.raises(ThreadSettingError, match=f"intra_op from environment variable {variable}: .*{re.escape(text)}"):
        subject.get()
    with pytest.raises(ThreadSettingError, match=variable):
        subject.team()


def test_one_limit_serves_any_number_of_blocks():
    """
    One after another, one in another, and in calls of a function.
    """
    subject = threads()
    one = subject.limit(intra_op=1)
    for _ in range(2):
        with one:
            assert values(subject.get()) == (1, 6)
            subject.set(intra_op=4)
            with one as inner:
                assert values(inner) == (1, 6)
            assert values(subject.get()) == (4, 6)
        assert one(subject.get)().intra_op == 1
        subject.set(intra_op=0)

    assert values(subject.get()) == (6, 6)


def test_one_limit_in_several_threads_ends_the_block_of_the_thread_that_leaves():
    """
    Whichever began last; a block that is left elsewhere than it was begun ends too.
    """
    subject = threads()
    one = subject.limit(intra_op=1)
    leave = {name: threading.Event() for name in "ab"}

    @one
    def hold(inside, name):
        inside.set()
        assert leave[name].wait(60)

    def begin(name):
        inside = threading.Event()
        holder = threading.Thread(target=hold, args=(inside, name))
        holder.start()
        assert inside.wait(60)
        return holder

    first = begin("a")
    with subject.limit(intra_op=2):
        second = begin("b")
        leave["a"].set()
        first.join()
        assert subject.get().intra_op == 1
        leave["b"].set()
        second.join()
        assert subject.get().intra_op == 2
    one.__enter__()
    elsewhere = threading.Thread(target=one.__exit__, args=(None, None, None))
    elsewhere.start()
    elsewhere.join()
    assert values(subject.get()) == (6, 6)


def test_a_limit_that_is_set_does_not_read_the_environment():
    """
    Setting it mends a bad variable.
    """
    subject = threads(TREADLE_INTRA_OP_THREADS="abc")

    subject.set(intra_op=2)

    assert values(subject.get()) == (2, 6)


def test_setting_a_limit_to_automatic_reads_the_topology_again():
    """
    A container's quota may change while the process lives.
    """
    found = [SIX, Topology(online=8, allowed=6, quota=2.5, quota_source="/cpu.max")]
    subject = Threads("test", {}, lambda: found[0])
    assert values(subject.get()) == (6, 6)
    del found[0]
    assert values(subject.get()) == (6, 6)
    subject.set(intra_op=0)

    assert values(subject.get()) == (2, 6)
    with subject.limit(inter_op=0) as settings:
        assert settings.inter_source == "automatic (limit(inter_op=0)): cgroup quota of 2.5 CPUs (/cpu.max)"


def test_validated_returns_a_limit_or_refuses():
    """
    None inherits (0 for the native core), 0 is automatic, numbers stay.
    """
    subject = threads()

    assert [subject.validated("intra_op", value, "Session(intra_op=)") for value in (None, 0, 3)] == [0, 6, 3]
    with pytest.raises(ThreadSettingError, match=r"intra_op from Session\(intra_op=\)"):
        subject.validated("intra_op", -3, "Session(intra_op=)")


def test_info_is_plain_data():
    """
    What `treadle threads` prints.
    """
    info = threads(TREADLE_INTER_OP_THREADS="2").info()

    assert info["inter_op"] == {"value": 2, "source": "TREADLE_INTER_OP_THREADS"}
    assert info["topology"]["available"] == 6
    assert info["threads"] == 0


def test_settings_may_change_from_many_threads():
    """
    The last one wins; each is consistent.
    """
    subject = threads()
    team = subject.team()
    workers = [threading.Thread(target=subject.set, kwargs={"intra_op": n, "inter_op": n}) for n in range(1, 9)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()

    intra, inter = team.limits
    assert intra == inter
    assert values(subject.get()) == team.limits
    team.close()


@pytest.mark.parametrize(
    "variable", ["TREADLE_INTER_OP_THREADS", "TREADLE_SPIN_US", "KMP_AFFINITY", "TREADLE_PARALLEL_BACKEND"]
)
def test_an_impossible_variable_is_refused_when_a_session_is_made(variable):
    """
    Not only at its first run.
    """
    code = "import treadle; from tests.models import small; treadle.Session(small.add())"
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | {variable: "x"}, capture_output=True, text=True, check=False
    )

    assert f"environment variable {variable}" in done.stderr
    assert "'x'" in done.stderr


class System:
    """A system whose available CPUs change."""

    def __init__(self):
        self.cpus = 6
        self.looks = 0

    def topology(self):
        return Topology(online=8, allowed=self.cpus, quota=None, quota_source=None)

    def bounds(self):
        self.looks += 1
        return self.cpus


@pytest.fixture
def clock(monkeypatch):
    """The clock by which runs look at the system; set its `now`."""

    class Clock:
        now = 1000.0

    monkeypatch.setattr("treadle.runtime.threads.monotonic", lambda: Clock.now)
    return Clock


def test_automatic_limits_follow_the_cpus_available(clock):
    """
    A run that begins a second later has them; numbers that were asked for stay.
    """
    system = System()
    threads = Threads("test", {}, system.topology, system.bounds)
    threads.set(inter_op=3)
    session = SessionLimits(threads, {}, intra_op=0)
    threads.team()
    system.cpus = 2
    clock.now += 1
    threads.team()

    assert values(threads.get()) == (2, 3)
    assert "2 of 8 CPUs" in threads.get().intra_source
    assert values(session.get()) == (2, 3)
    assert threads.team().limits == (2, 3)
    assert threads.validated("intra_op", 0, "run(intra_op=)") == 2


def test_limits_of_blocks_follow_too(clock):
    """
    Automatic limits of a block follow the CPUs available, and so do those behind it.
    """
    system = System()
    threads = Threads("test", {}, system.topology, system.bounds)
    threads.team()
    with threads.limit(intra_op=0, inter_op=1):
        system.cpus = 4
        clock.now += 1
        threads.team()
        assert values(threads.get()) == (4, 1)
    assert values(threads.get()) == (4, 4)


def test_runs_look_about_once_a_second(clock):
    """
    Looking costs more than a small run.
    """
    system = System()
    threads = Threads("test", {}, system.topology, system.bounds)
    for _ in range(100):
        threads.team()
    before = system.looks
    for _ in range(100):
        clock.now += 0.05
        threads.team()

    assert 4 <= system.looks - before <= 6
