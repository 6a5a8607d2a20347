"""Worker processes seen from outside: they end with their parent, however it ends, and stay within the budget."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.models.runnable import SUPPORTED, most_threads

PROGRAM = """
import os, sys, threading, time
import numpy as np
import treadle
from treadle.runtime.python_ops.process_pool import process_pool
from treadle.runtime.python_ops.executor import run_function

def busy(arrays):
    import re
    print("busy", flush=True)
    if arrays: open(arrays[0][()], "w").close()
    re.match("(a+)+b", "a" * 60)  # holds the GIL for years

def idle(arrays):
    return []

treadle.python_ops(executor="process")
run_function(idle, [])
"""
"""The functions are of the program's own main module, which has no guard against being run again."""

ENDS: dict[str, tuple[str, int]] = {
    "it returns": ("", 0),
    "it exits": ("sys.exit(3)", 3),
    "it fails": ("raise KeyError", 1),
    "it ends at once": ("os._exit(4)", 4),
    "it is killed": ("os.kill(os.getpid(), 9)", -9),
    "it is asked to end": ("os.kill(os.getpid(), 15)", -15),
}


def run(text: str, **options: object) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", PROGRAM + text], stdout=subprocess.PIPE, text=True, **options)  # type: ignore[call-overload,no-any-return]


def gone(pid: int) -> bool:
    """Whether the process ends within a minute. (Who adopts it may be slow to take its remains.)"""
    for _ in range(3000):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.02)
    return False


@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize("work", ["idle", "busy"])
def test_workers_end_with_their_parent(how: str, work: str, tmp_path: Path) -> None:
    """
    Idle ones, and such as are in the middle of a function that never lets go of the interpreter.
    """
    text, code = ENDS[how]
    start = ""
    if work == "busy":
        begun = f"np.array({str(tmp_path / 'begun')!r}, object)"
        start = f"threading.Thread(target=run_function, args=(busy, [{begun}]), daemon=True).start()\n"
        start += f"while not os.path.exists({str(tmp_path / 'begun')!r}): time.sleep(0.001)\n"
    with run(f"{start}print(*process_pool.pids(), flush=True)\n{text}", stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        lines = process.stdout.read().splitlines()
        assert process.wait(20) == code

    workers = [int(word) for line in lines if line != "busy" for word in line.split()]
    assert workers
    assert ("busy" in lines) == (work == "busy")
    assert all(map(gone, workers))


def test_ctrl_c_ends_a_run_that_waits_for_a_worker() -> None:
    """
    The signal goes to the whole group, as a terminal sends it: the program gets its KeyboardInterrupt at once.
    """
    text = """
try:
    run_function(busy, [])
except KeyboardInterrupt:
    print("interrupted", process_pool.pids(), flush=True)
    run_function(idle, [])
    print(len(process_pool.pids()), flush=True)
"""
    with run(text, start_new_session=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "busy\n"
        os.killpg(process.pid, signal.SIGINT)
        assert process.stdout.readline() == "interrupted []\n"
        assert process.stdout.readline() == "1\n"
        assert process.wait(20) == 0


def test_a_fork_of_the_parent_does_not_keep_its_workers() -> None:
    """
    They end with the parent although a child of it lives on.
    """
    text = "print(*process_pool.pids(), flush=True)\nif os.fork() == 0: time.sleep(30); os._exit(0)\nos._exit(0)"
    with run(text) as process:
        assert process.stdout is not None
        workers = [int(word) for word in process.stdout.readline().split()]
        assert process.wait(20) == 0
        assert workers
        assert all(map(gone, workers))
        process.stdout.close()


BUSY = """
from treadle import dtypes
from treadle.graph.graph import Graph
from treadle.ops.op import Info

def spin(arrays):
    end = time.monotonic() + 0.2
    while time.monotonic() < end:
        np.ones((300, 300)) @ np.ones((300, 300))
    return [np.zeros(1, np.float32)]

treadle.threads.set(intra_op=INTRA, inter_op=INTER)
graph = Graph("busy")
x = graph.input("x", dtypes.f32, (1,))
for number in range(6):
    shape_rule = lambda _: [Info(dtypes.f32, (1,))]
    attrs = {"function": spin, "infer": shape_rule, "label": "PyFunc", "movable": True, "cost": 1e8}
    y = graph.add("call", [x], attrs, name=f"f{number}").outputs[0]
    y.dtype, y.shape = dtypes.f32, (1,)
    graph.outputs.append(y)
m = graph.input("m", dtypes.f32, (1200, 1200))
for number in range(3):
    y = graph.add("matmul", [m, graph.constant(np.ones((1200, 1200), np.float32))], name=f"m{number}").outputs[0]
    y.dtype, y.shape = dtypes.f32, (1200, 1200)
    graph.outputs.append(y)
session = treadle.Session(graph)
feed = {"x": np.zeros(1, np.float32), "m": np.ones((1200, 1200), np.float32)}
session.run(feed)

def client():
    while True:
        session.run(feed)

for _ in range(3):
    threading.Thread(target=client, daemon=True).start()
while len(process_pool.pids()) < INTER: time.sleep(0.01)
print(*process_pool.pids(), flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(not SUPPORTED, reason="threads are counted through Linux's /proc")
@pytest.mark.parametrize(("intra_op", "inter_op"), [(1, 1), (1, 2), (2, 2)])
def test_worker_processes_count_in_the_teams_limits(intra_op: int, inter_op: int) -> None:
    """
    Threads of the program and of its workers that want a CPU, together: never more than max(intra_op, inter_op).
    """
    budget = max(intra_op, inter_op)
    text = BUSY.replace("INTRA", str(intra_op)).replace("INTER", str(inter_op))
    with run(text, stdin=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        workers = [int(word) for word in process.stdout.readline().split()]
        at_once, steadily = most_threads(budget, process.pid, *workers)
        process.stdin.close()
        assert process.wait(20) == 0

    assert len(workers) == inter_op
    assert steadily <= budget <= at_once
