"""Pinning: the CPUs, the variables that choose them, the threads that are pinned, and the report."""

from __future__ import annotations

import os
import threading
import warnings

import pytest
from tests.unit.runtime.slow_models import X, python_tasks

from treadle import Pool, _native
from treadle.errors import ThreadSettingError, ThreadSettingWarning
from treadle.runtime import pinning
from treadle.runtime.threads import Threads

ALLOWED = sorted(os.sched_getaffinity(0))


@pytest.fixture(autouse=True)
def nothing_reported_yet():
    pinning._reported.clear()


def cpus(**environment):
    return pinning.cpus_from_environment(environment)


def test_pinning_is_off_by_default():
    """
    Nothing in the environment, nothing pinned.
    """
    assert cpus().value == ()


@pytest.mark.parametrize(
    "environment",
    [{"TREADLE_CPUS": ",".join(map(str, ALLOWED))}, {"KMP_AFFINITY": "granularity=fine,compact"},
     {"KMP_AFFINITY": f"verbose,explicit,proclist=[{','.join(map(str, ALLOWED))}]"}, {"OMP_PROC_BIND": "true"},
     {"OMP_PROC_BIND": "CLOSE"}, {"OMP_PROC_BIND": "spread,close"}, {"KMP_AFFINITY": "scatter"}],
)  # fmt: skip
def test_variables_that_pin(environment):
    """
    treadle's own list, and the forms of OpenMP's that are honoured.
    """
    setting = cpus(**environment)

    assert sorted(setting.value) == ALLOWED
    assert setting.source == next(iter(environment))


@pytest.mark.parametrize(
    "environment", [{"OMP_PROC_BIND": "false"}, {"KMP_AFFINITY": "none"}, {"KMP_AFFINITY": "disabled"}]
)
def test_variables_that_do_not_pin(environment):
    """
    They are honoured too.
    """
    assert cpus(**environment).value == ()


@pytest.mark.parametrize(
    "environment",
    [{"OMP_PROC_BIND": "master"}, {"KMP_AFFINITY": "logical"}, {"KMP_AFFINITY": "granularity=core,compact"},
     {"KMP_AFFINITY": "compact,1,0"}, {"KMP_AFFINITY": "explicit,proclist=[{0,1},2]"}, {"OMP_PLACES": "cores"},
     {"OMP_PROC_BIND": "close", "OMP_PLACES": "sockets"},
     {"TREADLE_CPUS": "16000"}],
)  # fmt: skip
def test_a_setting_that_cannot_be_honoured_is_one_warning(environment):
    """
    It names the variable and the value, once.
    """
    variable, value = list(environment.items())[-1]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cpus(**environment)
        cpus(**environment)

    assert [warning.category for warning in caught] == [ThreadSettingWarning]
    assert f"{variable} = {value!r}" in str(caught[0].message)


@pytest.mark.parametrize(
    ("variable", "text"),
    [("TREADLE_CPUS", "a"), ("TREADLE_CPUS", "3-1"), ("TREADLE_CPUS", "0,,1"), ("TREADLE_CPUS", "0-3:0"),
     ("TREADLE_CPUS", "-1"),
     ("OMP_PROC_BIND", "near"), ("OMP_PROC_BIND", "spread,near"), ("KMP_AFFINITY", "tight"),
     ("KMP_AFFINITY", "granularity=inch,compact"), ("KMP_AFFINITY", "compact,scatter"),
     ("KMP_AFFINITY", "explicit")],
)  # fmt: skip
def test_impossible_values_are_refused(variable, text):
    """
    The error names variable and value, when the team is first asked for.
    """
    with pytest.raises(ThreadSettingError, match=f"cpus from environment variable {variable}") as caught:
        Threads("test", {variable: text}).team()
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize("value", ["x", 3, b"0", [-1], [1.0], [True]])
def test_impossible_lists_are_refused_when_set(value):
    """
    The settings stay the same.
    """
    subject = Threads("test", {})
    with pytest.raises(ThreadSettingError, match=r"cpus from set\(cpus=\)"):
        subject.set(cpus=value)
    assert subject.setting("cpus").value == ()


def test_lists_have_ranges_and_strides():
    """
    As the kernel writes them.
    """
    assert pinning.checked_cpus("0-3,5", "here") == (0, 1, 2, 3, 5)
    assert pinning.checked_cpus("0-6:2, 9", "here") == (0, 2, 4, 6, 9)
    assert pinning.checked_cpus("", "here") == ()


def test_orders_follow_cores_and_packages(tmp_path, monkeypatch):
    """
    Two packages of two cores of two threads: close takes neighbours, spread takes packages in turn.
    """
    homes = {0: (0, 0), 1: (0, 1), 2: (1, 0), 3: (1, 1), 4: (0, 0), 5: (0, 1), 6: (1, 0), 7: (1, 1)}
    for cpu, (package, core) in homes.items():
        folder = tmp_path / f"sys/devices/system/cpu/cpu{cpu}/topology"
        folder.mkdir(parents=True)
        (folder / "physical_package_id").write_text(f"{package}\n")
        (folder / "core_id").write_text(f"{core}\n")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(homes))

    assert pinning.ordered_cpus(tmp_path, scattered=False) == (0, 4, 1, 5, 2, 6, 3, 7)
    assert pinning.ordered_cpus(tmp_path, scattered=True) == (0, 2, 1, 3, 4, 6, 5, 7)


def test_workers_are_pinned_and_callers_are_not():
    """
    Worker i runs on the i-th CPU of the list, counted round; an empty list unpins.
    """
    pool = Pool("pinned", intra_op=3, inter_op=3)
    pool.set(cpus=ALLOWED)
    masks, meet = {}, threading.Barrier(3)

    def look():
        masks[threading.get_native_id()] = os.sched_getaffinity(0)
        meet.wait(60)

    session = python_tasks([look] * 24, pool=pool)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        session.run(X)
    caller = masks.pop(threading.get_native_id())

    assert caller == set(ALLOWED)
    assert len(masks) == 2
    assert all(len(mask) == 1 and mask <= set(ALLOWED) for mask in masks.values())
    masks.clear()
    pool.set(cpus=[])
    session.run(X)
    assert all(mask == set(ALLOWED) for mask in masks.values())
    assert os.sched_getaffinity(0) == set(ALLOWED)


def test_the_status_reports_a_worker_that_cannot_be_pinned(capfd):
    """
    And once on stderr; it works where it may. Pins that work put an end to that.
    """
    team = _native.Team("pinned", 2, 2)
    both = threading.Barrier(2)
    steps = [(lambda _: both.wait(20), [], [], 1, 1e6)] * 2
    program = _native.Program(steps, [(0, 1, 0.0, False), (1, 1, 0.0, False)], [[], []], [], 0, 0)
    team.set_cpus([1000])
    program.run(team, [])

    assert "cannot pin worker 1 to CPU 1000" in team.status()["pin_fault"]
    assert capfd.readouterr().err.count("cannot pin") == 1

    team.set_cpus(ALLOWED)
    program.run(team, [])

    assert team.status()["pin_fault"] == ""
    team.close()
