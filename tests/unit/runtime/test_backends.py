"""The backend of the intra-op loop: chosen once, before the first run; every test uses a new process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from treadle.errors import BackendError
from treadle.runtime import backends

NAMES = ["native", "openmp", "tbb"]

START = """
import numpy as np, os, threading
import treadle
from tests.models import small
from treadle.errors import BackendError
model = small.branches(width=256)
inputs = small.inputs_for(model)
def expect(error, call):
    try: call()
    except error as fault: return str(fault)
    raise SystemExit("no " + error.__name__)
def name(thread):
    try: return open(f"/proc/self/task/{thread}/comm").read()
    except OSError: return ""  # it has just ended
def names(): return {thread: name(thread) for thread in os.listdir("/proc/self/task")}
"""


def process(body: str, **environment: str) -> str:
    """Runs `body` in a new process and returns its output; fails if the process ends with an error."""
    result = subprocess.run(
        [sys.executable, "-c", START + body], cwd=Path(__file__).resolve().parents[3], timeout=100, check=False,
        env=os.environ | {"TREADLE_INTRA_OP_THREADS": "3"} | environment, capture_output=True, text=True,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize("name", NAMES)
def test_a_backend_is_chosen_by_call_or_variable(name: str) -> None:
    """
    Both ways choose, info() says what is used, and only the native one starts workers of treadle.
    """
    after = """
import time
model = small.convolutional(channels=64, size=57); inputs = small.inputs_for(model)
print(treadle.threads.info()["build"]["backend"])
session, before, end = treadle.Session(model), names(), time.monotonic() + 60
def of_treadle(): return any(name.startswith("treadle-") for name in names().values())
backend = treadle.threads.info()["build"]["backend"]
def found(): return of_treadle() if backend == "native" else len(names()) > len(before)
alone = backend == "tbb" and len(os.sched_getaffinity(0)) == 1  # it starts none there
while not alone and not found() and time.monotonic() < end: session.run(inputs)
print(alone or found(), of_treadle())
"""
    wanted = f"{name}\nTrue {name == 'native'}\n"

    assert process(f"treadle.threads.set_backend({name!r})\n" + after) == wanted
    assert process(after, TREADLE_PARALLEL_BACKEND=name) == wanted


def test_a_call_overrides_the_variable_until_the_first_run() -> None:
    """
    The backend may change until the first run.
    """
    body = """
treadle.threads.set_backend("native"); treadle.threads.set_backend("openmp")
treadle.Session(model).run(inputs)
print(treadle.threads.info()["build"]["backend"])
"""
    assert process(body, TREADLE_PARALLEL_BACKEND="native") == "openmp\n"


@pytest.mark.parametrize(("first", "second"), [("native", "openmp"), ("openmp", "native"), ("tbb", "openmp")])
def test_a_second_backend_is_refused_once_something_has_run(first: str, second: str) -> None:
    """
    The error names both backends and the remedy; naming the backend in use again is allowed, and it keeps working.
    """
    message = process(
        f"""
treadle.threads.set_backend({first!r})
session = treadle.Session(model)
before = session.run(inputs)["y"]
print(expect(BackendError, lambda: treadle.threads.set_backend({second!r})))
treadle.threads.set_backend({first!r})
assert session.run(inputs)["y"].tobytes() == before.tobytes()
"""
    )

    assert f"backend from set_backend({second!r}): {first!r} (set_backend({first!r})) is in use" in message
    assert f"TREADLE_PARALLEL_BACKEND={second}" in message


@pytest.mark.parametrize("name", ["gcd", "", "OpenMP", None, 3])
def test_unknown_backends_are_refused(name: object) -> None:
    """
    The error lists the known ones.
    """
    with pytest.raises(BackendError, match="wanted one of native, openmp, tbb, got"):
        backends.set_backend(name)


def test_a_variable_that_names_no_backend_is_refused_at_the_first_run() -> None:
    """
    It is not ignored.
    """
    body = "from treadle.errors import KnobError\nprint(expect(KnobError, lambda: treadle.Session(model).run(inputs)))"

    assert "TREADLE_PARALLEL_BACKEND: wanted native, openmp or tbb, got 'omp'" in process(
        body, TREADLE_PARALLEL_BACKEND="omp"
    )


def test_missing_backends_say_how_to_install_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """
    No OpenMP runtime, no bridge to oneTBB, no oneTBB.
    """
    monkeypatch.setattr(backends, "OPENMP", ("libnothing.so.1",))
    with pytest.raises(BackendError, match="apt-get install libgomp1"):
        backends._load_openmp()
    monkeypatch.setattr(backends, "_packaged_tbb", lambda: str(tmp_path / "libtbb.so.12"))
    with pytest.raises(BackendError, match=r"pip install tbb`$"):
        backends._load_tbb()
    monkeypatch.setattr(backends, "BRIDGE", "missing.so")
    with pytest.raises(BackendError, match="pip install tbb-devel"):
        backends._load_tbb()


@pytest.mark.parametrize("name", ["openmp", "tbb"])
def test_failures_timeouts_and_clients_work_on_every_backend(name: str) -> None:
    """
    A failing kernel reaches the caller, a timeout ends a run, eight clients get their own results.
    """
    body = f"""
from treadle.errors import RunError, RunTimeoutError
treadle.threads.set_backend({name!r})
session = treadle.Session(small.convolutional(channels=64, size=57))
feeds = small.inputs_for(small.convolutional(channels=64, size=57))
wanted = session.run(feeds)["y"].tobytes()
expect(RunTimeoutError, lambda: session.run(feeds, timeout=0.0))
same = []
def client():
    for _ in range(5): same.append(session.run(feeds)["y"].tobytes() == wanted)
clients = [threading.Thread(target=client) for _ in range(8)]
for c in clients: c.start()
for c in clients: c.join()
w = small.ModelWriter()
w.op("Gather", "x", "i"); w.nodes[-1].output[0] = "y"
takes, gives = {{"x": (small.FLOAT, [1000, 64]), "i": (7, [5000])}}, {{"y": (small.FLOAT, [5000, 64])}}
gather = treadle.Session(w.model(takes, gives))
expect(RunError, lambda: gather.run({{"x": np.zeros((1000, 64), np.float32), "i": np.full(5000, 9999)}}))
assert session.run(feeds)["y"].tobytes() == wanted
print(len(same), all(same))
"""
    assert process(body) == "40 True\n"
