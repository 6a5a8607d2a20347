"""What the system lets the process start no thread for: runs that can do without go on, others are refused by type."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import mmap, resource, threading
import numpy as np, treadle
from tests.limited_memory import limit_memory
from tests.models import small
from tests.unit.runtime.slow_models import X, python_tasks

pool = treadle.Pool("few", intra_op=2, inter_op=2)
model = small.branches(width=512)
inputs = small.inputs_for(model)
session = treadle.Session(model, pool=pool)
blocking = python_tasks([lambda: None] * 2, pool=pool, blocking=True)
wanted = session.run(inputs, intra_op=1, inter_op=1)["y"].tobytes()

idle = threading.Event()  # these have the stacks of threads that have ended, which could be used again
for _ in range(8):
    threading.Thread(target=idle.wait, daemon=True).start()
before = resource.getrlimit(resource.RLIMIT_AS)
limit_memory(16 << 20)
fill = []
try:
    while True: fill.append(mmap.mmap(-1, 2 << 20))
except OSError:
    del fill[-2:]  # enough for what a run allocates, and less than a stack takes

for _ in range(3):
    assert session.run(inputs)["y"].tobytes() == wanted
status = pool.threads.status()
assert status["workers"] == 0
print(status["thread_fault"])
try:
    blocking.run(X)
except treadle.errors.ThreadLimitError as error:
    print(error)

idle.set()
fill.clear()
resource.setrlimit(resource.RLIMIT_AS, before)
blocking.run(X)
while pool.threads.status()["workers"] == 0:
    assert session.run(inputs)["y"].tobytes() == wanted
print(repr(pool.threads.status()["thread_fault"]))
"""

WHY = (
    "team 'few': cannot start thread 1: Resource temporarily unavailable; "
    "lower intra_op / inter_op or raise the limit on threads"
)


@pytest.mark.skipif(sys.platform != "linux", reason="limits the size of a process")
def test_runs_go_on_without_threads_that_cannot_be_started_and_blocking_functions_are_refused() -> None:
    """
    With no memory left for another stack, a run gives the same bits on its caller's thread and one line says why; a
    blocking function raises ThreadLimitError. Once there is memory again, both have their threads.
    """
    ended = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=False)

    assert ended.stderr == f"treadle: {WHY}; runs go on with fewer\n"
    assert ended.stdout.splitlines() == [
        WHY,
        f"{WHY}; a blocking function needs a thread; nothing was returned, and the session may be used again",
        "''",
    ]
