"""The native core and its process: threads, signals, fork, exit. Each test runs in a process of its own."""

import os
import subprocess
import sys
import textwrap

import pytest

PRELUDE = """
import os, signal, sys, threading, time
from treadle import _native

def build(functions, cost_ns=1e6, blocking=False):
    steps = [(f, [], [], 1, cost_ns) for f in functions]
    return _native.Program(steps, [(i, 1, 0.0, blocking) for i in range(len(steps))], [[] for _ in steps], [], 0, 0)
"""


def run(code, **options):
    return subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", "-c", PRELUDE + textwrap.dedent(code)],
        capture_output=True, text=True, timeout=60, check=False, **options,
    )  # fmt: skip


def test_workers_are_named_and_end_with_their_team():
    """
    Threads are named treadle-<team>-<i>, and none is left after close().
    """
    result = run("""
        team = _native.Team("red", 4, 4)
        meet = threading.Barrier(4)
        build([lambda _: meet.wait(30) for _ in range(12)]).run(team, [])
        def name(thread):
            try: return open(f"/proc/self/task/{thread}/comm").read().strip()
            except OSError: return "ended"
        def names(): return sorted(n for n in map(name, os.listdir("/proc/self/task")) if n.startswith("treadle"))
        print(names())
        team.close()
        while names(): time.sleep(0.001)  # threads that were joined are listed a moment longer
    """)

    assert result.stdout == "['treadle-red-1', 'treadle-red-2', 'treadle-red-3']\n", result.stderr


@pytest.mark.parametrize("limits", [(1, 1), (2, 2)])
@pytest.mark.parametrize("blocking", [False, True])
def test_ctrl_c_ends_a_run_within_100_ms(limits, blocking):
    """
    The run raises KeyboardInterrupt, and the team stays usable.
    """
    result = run(f"""
        team = _native.Team("t", *{limits})
        begun = threading.Event()
        program = build([lambda _: begun.set() or time.sleep(0.01)] * 1000, blocking={blocking})
        def seconds():
            sent = []
            begun.clear()
            def interrupt():
                begun.wait()
                time.sleep(0.1)
                sent.append(time.monotonic())
                os.kill(os.getpid(), signal.SIGINT)
            interrupter = threading.Thread(target=interrupt)
            try:
                interrupter.start()
                program.run(team, [])
            except KeyboardInterrupt:
                return time.monotonic() - sent[0]
            finally:
                interrupter.join()
        print(any(seconds() < 0.1 for _ in range(100)))  # other load on the machine may slow most attempts
        build([lambda _: print("usable")]).run(team, [])
    """)

    assert result.stdout.split() == ["True", "usable"], result.stderr


def test_a_forked_child_starts_workers_of_its_own():
    """
    The child runs the program on its own workers, and the parent still runs it on its workers.
    """
    result = run("""
        team = _native.Team("t", 3, 3)
        meet = threading.Barrier(3)
        program = build([lambda _: meet.wait(30) for _ in range(9)])
        program.run(team, [])
        child = os.fork()
        if child == 0:
            meet = threading.Barrier(3)
            program.run(team, [])
            os._exit(0 if team.threads == 2 else 3)
        assert os.waitpid(child, 0)[1] == 0
        program.run(team, [])
        print("both")
    """)

    assert result.stdout == "both\n", result.stderr


@pytest.mark.parametrize(
    "ending",
    [
        "pass",
        "sys.exit(0)",
        "team.close()",
        "threading.Thread(target=lambda: program.run(team, []), daemon=True).start()",
    ],
)
def test_the_interpreter_ends_cleanly(ending):
    """
    The process exits without leaks or messages, with idle workers, closed teams or a run on a daemon thread.
    """
    result = run(f"""
        team = _native.Team("t", 4, 4)
        program = build([lambda _: time.sleep(0.001) for _ in range(3000)])
        build([lambda _: time.sleep(0.001) for _ in range(30)]).run(team, [])
        {ending}
    """)

    assert result.returncode == 0
    assert "leaked" not in result.stderr


def test_runs_at_the_end_of_the_interpreter_are_refused():
    """
    A finalizer that runs after the team is closed gets an error and does not hang.
    """
    result = run("""
        import atexit
        team = _native.Team("t", 2, 2)
        class Late:
            def __del__(self):
                try:
                    build([print]).run(team, [])
                except RuntimeError as error:
                    os.write(1, str(error).encode())
        late = Late()
    """)

    assert result.returncode == 0
    assert result.stdout == "team 't' is closed", result.stderr


def test_importing_changes_no_environment_and_starts_no_thread():
    """
    A team starts threads at its first run. NumPy, whose BLAS has threads of its own, is imported before.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TREADLE_")}
    result = run(
        """
        import numpy
        before = dict(os.environ), len(os.listdir("/proc/self/task"))
        import treadle.runtime.threads
        treadle.runtime.threads.get()
        print(before == (dict(os.environ), len(os.listdir("/proc/self/task"))))
        """,
        env=environment,
    )

    assert result.stdout == "True\n", result.stderr
