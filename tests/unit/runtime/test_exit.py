"""The end of a process, in every way and with everything still going on: no hang and no crash."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.models import small

START = """
import atexit, os, signal, sys, threading, time
import treadle
from tests.unit.runtime.slow_models import X, long_kernels, python_tasks
treadle.threads.set(intra_op=3, inter_op=2)
session, inputs = long_kernels(60)
session.run(inputs, ["y"])
"""

DOING = {
    "nothing": "",
    "a run on a daemon thread": "threading.Thread(target=session.run, args=(inputs,), daemon=True).start()",
    "Python tasks on a daemon thread": """
endless = python_tasks([lambda: time.sleep(0.01)] * 1000)
threading.Thread(target=endless.run, args=(X,), daemon=True).start()
""",
    "a run in the background": "future = session.run_async(inputs)",
    "a pool that is referred to for ever": (
        "treadle.kept = treadle.Pool(intra_op=2); session.run(inputs, pool=treadle.kept)"
    ),
    "a task that was left to itself": """
never = python_tasks([threading.Event().wait], blocking=True)
try:
    never.run(X, timeout=0.1)
except treadle.errors.RunTimeoutError:
    pass
""",
    "a task in a worker that was left to itself": """
inside, main = threading.Event(), threading.get_ident()
def dwell():
    if threading.get_ident() == main:
        inside.wait()
    else:
        inside.set()
        while True:
            time.sleep(0.001)
token = treadle.CancelToken()
threading.Thread(target=lambda: (inside.wait(), token.cancel())).start()
try:
    python_tasks([dwell] * 200).run(X, cancel=token)
except treadle.errors.RunCancelledError:
    pass
""",
    "a task for ever on a daemon thread": """
def dwell():
    inside.set()
    threading.Event().wait()
inside = threading.Event()
threading.Thread(target=python_tasks([dwell]).run, args=(X,), daemon=True).start()
inside.wait()
""",
    "a run on a daemon thread that waits for a blocking task for ever": """
def dwell():
    inside.set()
    threading.Event().wait()
inside = threading.Event()
threading.Thread(target=python_tasks([dwell], blocking=True).run, args=(X,), daemon=True).start()
inside.wait()
""",
    "tasks that come back while the interpreter ends": """
def dwell():
    while True:
        time.sleep(0.0001)
for blocking in (True, False):
    threading.Thread(target=python_tasks([dwell] * 2, blocking=blocking).run, args=(X,), daemon=True).start()
time.sleep(0.1)
class Late:
    def __del__(self):
        time.sleep(0.05)
treadle.kept_late = Late()
""",
    "a run at the very end": "atexit.register(session.run, inputs)",
    "a spinning team": "treadle.threads.set(spin_us=float('inf')); session.run(inputs)",
}

ENDINGS = {
    "the last line": ("", 0),
    "sys.exit": ("sys.exit(3)", 3),
    "os._exit": ("os._exit(4)", 4),
    "an exception": ("raise SystemError('mine')", 1),
    "SIGTERM": ("os.kill(os.getpid(), signal.SIGTERM); time.sleep(20)", -15),
}


CASES = [(doing, "the last line") for doing in DOING] + [
    ("a run on a daemon thread", ending) for ending in ENDINGS if ending != "the last line"
]


@pytest.mark.parametrize(("doing", "ending"), CASES)
def test_a_process_ends_during_any_activity(doing: str, ending: str) -> None:
    """
    With its own exit code, soon and without a word: a daemon thread in a run ends like one in any other library.
    """
    statement, code = ENDINGS[ending]
    done = subprocess.run(
        [sys.executable, "-c", START + DOING[doing] + "\n" + statement], cwd=Path(__file__).parents[3],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip

    assert done.returncode == code, done.stderr
    if ending == "an exception":
        assert done.stderr.count("Traceback") == 1
        assert done.stderr.endswith("SystemError: mine\n")
    else:
        assert done.stderr == ""


JOINED = """
import atexit, threading, time
def end():
    global stopped
    stopped = True
    client.join()
    print("joined")
stopped = False
atexit.register(end)  # before treadle is imported: called after the end of its runs
from tests.unit.runtime.slow_models import X, long_kernels
session, inputs = long_kernels(60)
inside = threading.Event()
def serve():
    while not stopped:
        inside.set()
        session.run(inputs)
client = threading.Thread(target=serve, daemon=True)
client.start()
inside.wait()
"""


def test_a_daemon_thread_in_a_run_can_be_joined_at_the_end() -> None:
    """
    A handler that was registered with atexit before treadle's joins the thread.
    """
    done = subprocess.run(
        [sys.executable, "-c", JOINED], cwd=Path(__file__).parents[3],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip

    assert (done.returncode, done.stdout, done.stderr) == (0, "joined\n", "")


def test_a_process_ends_while_daemon_threads_begin_and_end_runs_without_a_pause(tmp_path: Path) -> None:
    """
    No thread is stopped between its run and Python, which would abort the process. Repeated, because it is a race.

    From the second process on, the model comes from its artifact, so that a process imports little.
    """
    model = small.attention()
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    np.savez(tmp_path / "inputs.npz", **small.inputs_for(model))
    body = """
import threading, time
import numpy as np
import treadle
session, inputs = treadle.Session("model.onnx"), dict(np.load("inputs.npz"))
session.run(inputs)

def client():
    while True:
        session.run(inputs)

for _ in range(8):
    threading.Thread(target=client, daemon=True).start()
time.sleep(0.02)
"""
    for _ in range(8):
        done = subprocess.run(
            [sys.executable, "-c", body], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""


@pytest.mark.parametrize("backend", ["openmp", "tbb"])
def test_other_backends_end_too(backend: str) -> None:
    """
    With a run in progress on a daemon thread.
    """
    body = f"import treadle\ntreadle.threads.set_backend({backend!r})\n" + START + DOING["a run on a daemon thread"]
    done = subprocess.run(
        [sys.executable, "-c", body],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if "BackendError" in done.stderr:
        pytest.skip(f"{backend} is not installed")

    assert done.returncode == 0, done.stderr


def test_runs_that_have_not_begun_do_not_keep_a_process() -> None:
    """
    The first is in progress at the last line; the others would take as long each.
    """
    program = """
import threading, time
import treadle
from tests.unit.runtime.slow_models import X, python_tasks
treadle.threads.set(intra_op=1, inter_op=1)
begun = threading.Event()
def dwell():
    begun.set()
    time.sleep(0.05)
    print("run", flush=True)
session = python_tasks([dwell])
futures = [session.run_async(X) for _ in range(20)]
futures[-1].add_done_callback(lambda future: print("cancelled", future.cancelled(), flush=True))
begun.wait()
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=Path(__file__).parents[3],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n") == ["run", "cancelled True", ""]


def test_runs_that_a_thread_waits_for_are_begun_after_the_main_thread() -> None:
    """
    A program may go on in threads of its own when its main thread has ended.
    """
    program = """
import threading, time
import treadle
from tests.unit.runtime.slow_models import X, python_tasks
treadle.threads.set(intra_op=1, inter_op=1)
session = python_tasks([lambda: time.sleep(0.01)])
def work():
    threading.main_thread().join()
    futures = [session.run_async(X) for _ in range(5)]
    print(len([future.result() for future in futures]), flush=True)
threading.Thread(target=work).start()
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=Path(__file__).parents[3],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    assert done.stdout == "5\n"
