"""More clients than slots: how many workers compute, and whether results are right."""

from __future__ import annotations

import subprocess
import sys

import pytest

CLIENTS = """
import gc, mmap, sys, threading, time
import numpy as np, treadle
from pathlib import Path
from tests.limited_memory import limit_memory
from tests.models import small

model = small.branches(width=256)
inputs = small.inputs_for(model)
session = treadle.Session(model, pool=treadle.Pool("crowd", intra_op=2, inter_op=2))
wanted = session.run(inputs)["y"].tobytes()
limited = len(sys.argv) > 1
go, warm, ends, wrong = threading.Event(), threading.Barrier(7), threading.Barrier(7), []

def client():
    session.run(inputs, intra_op=1, inter_op=1)  # has what a thread needs of its own, and starts none
    warm.wait()
    go.wait()
    runs, last = 0, time.monotonic() + 60
    while runs < 50 or not (limited or wrong or workers() == 2 or time.monotonic() > last):
        runs += 1
        try:
            if session.run(inputs)["y"].tobytes() != wanted: wrong.append("other bits")
        except treadle.errors.TreadleError as error:
            wrong.append(str(error))
    ends.wait()
    ends.wait()  # the stack of a thread that has ended can be another's

def workers():
    names = [(task / "comm").read_text() for task in Path("/proc/self/task").iterdir()]
    return sum(name.startswith("treadle-crowd") for name in names)

clients = [threading.Thread(target=client) for _ in range(6)]
for thread in clients: thread.start()
warm.wait()
if limited:
    gc.collect()
    limit_memory(16 << 20)
    fill = []
    try:
        while True: fill.append(mmap.mmap(-1, 2 << 20))
    except OSError:
        del fill[-2:]  # enough for what a thread allocates, and less than a stack takes
go.set()
ends.wait()
print(workers(), wrong[:1])
ends.wait()
for thread in clients: thread.join()
"""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc, and limits the size of a process")


def crowd(*arguments: str) -> str:
    """The workers that six clients on two places leave behind, and the first thing that went wrong."""
    ended = subprocess.run(
        [sys.executable, "-c", CLIENTS, *arguments], capture_output=True, text=True, timeout=120, check=False
    )
    return ended.stdout + ended.stderr


def test_many_clients_have_as_many_workers_as_slots():
    """
    Six clients on two slots get the same bits as one client, from two workers.
    """
    assert crowd() == "2 []\n"


def test_many_clients_work_themselves_where_no_thread_can_be_started():
    """
    With no memory left for the stack of another thread, clients compute for themselves and get the same.
    """
    workers, wrong = crowd("limited").split(" ", 1)

    assert int(workers) < 2
    assert wrong.startswith("[]\ntreadle: team 'crowd': cannot start thread ")
    assert wrong.count("\n") == 2
