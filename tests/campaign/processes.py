"""What happens to processes: files that are cut, kills, forks, signals, and the end of memory, threads or CPUs."""

from __future__ import annotations

import contextlib
import mmap
import os
import resource
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import treadle
from tests.bodies.onnx_kinds import COUNTED, loop, model_of
from tests.campaign.trial import Array, Child, Trial, home, outcome, rng_of, same
from tests.limited_memory import limit_memory
from tests.models import small
from tests.unit.frontends.tensorflow.graphs import mobile

WIDTH, ROWS = 256, 4
X = np.linspace(-1, 1, ROWS * WIDTH, dtype=np.float32).reshape(ROWS, WIDTH)
STRESS = Path("build/native-chaos/treadle_native_stress")
"""What scripts/native_test builds."""
GRAPHS = 20
"""Random graphs of a trial."""


def use_cache() -> None:
    """Lets this process have a cache folder, which all trials of a worker share, and compile within it."""
    (home() / "cache").mkdir(mode=0o700, exist_ok=True)
    os.environ |= {"TREADLE_CACHE": str(home() / "cache"), "TREADLE_OUT_OF_PROCESS": "off"}


@cache
def products() -> tuple[Path, bytes]:
    """Returns a model whose weights are in a file beside it, and these weights."""
    w = small.ModelWriter(3)
    y = w.op("MatMul", w.op("MatMul", "x", w.random(WIDTH, WIDTH)), w.random(WIDTH, WIDTH))
    model = w.model({"x": (small.FLOAT, ["rows", WIDTH])}, {y: (small.FLOAT, ["rows", WIDTH])})
    path = home() / "model.onnx"
    onnx.save_model(model, str(path), save_as_external_data=True, location="weights.bin", size_threshold=0)
    return path, (home() / "weights.bin").read_bytes()


def result(session: treadle.Session, rows: int = ROWS) -> Array:
    """Returns what a session of products gives for so many rows."""
    (y,) = session.run({"x": np.resize(X, (rows, WIDTH))}).values()
    return y


@cache
def expected() -> bytes:
    """Returns the bits of that for ROWS rows, computed in a process of its own."""
    path, _ = products()
    target = home() / "expected"

    def work() -> str:
        use_cache()
        target.write_bytes(result(treadle.Session(path)).tobytes())
        return "ok"

    found = Child(work).outcome()
    assert found == "ok", found
    return target.read_bytes()


def images() -> list[Path]:
    """Returns the files of the cache that hold weights."""
    found = []
    for file in (home() / "cache").rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            if file.is_file() and file.stat().st_size > WIDTH * WIDTH * 4:
                found.append(file)
    return found


def cuts(number: int) -> Trial:
    """Weights and images that are cut while a model loads, while it runs, or while it compiles for other sizes."""
    rng = rng_of("cuts", number)
    when = rng.choice(("load", "run", "sizes"))
    delay, part = rng.uniform(0, 0.06), rng.random()
    path, whole = products()

    def work() -> str:
        use_cache()
        if rng.random() < 0.5:
            for file in images():
                file.unlink(missing_ok=True)
        session = None if when == "load" else treadle.Session(path)

        def cut() -> None:
            time.sleep(delay)  # no event: any moment is one to cut at
            for file in (path.parent / "weights.bin", *images()):
                with contextlib.suppress(FileNotFoundError):
                    os.truncate(file, int(part * len(whole)))

        cutter = threading.Thread(target=cut)
        cutter.start()
        try:
            session = session or treadle.Session(path)
            while cutter.is_alive():
                rows = rng.randrange(1, 40) if when == "sizes" else ROWS
                if result(session, rows).tobytes() != expected_of(rows):
                    return "FAULT a wrong result"
            result(session)
        finally:
            cutter.join()
        return "ok"

    def expected_of(rows: int) -> bytes:
        """The bits for other numbers of rows are those of the first rows, and of these again."""
        first = np.frombuffer(expected(), np.float32).reshape(ROWS, WIDTH)
        return np.resize(first, (rows, WIDTH)).tobytes()

    def run() -> str:
        expected()
        try:
            return Child(work).outcome()
        finally:
            (home() / "weights.bin").write_bytes(whole)
            for file in images():
                file.unlink(missing_ok=True)

    return Trial(f"during {when} after {delay * 1000:.0f} ms, to {part:.0%}", run)


def kills(number: int) -> Trial:
    """A process that is killed while it compiles and stores a model: the next one has the right results."""
    rng = rng_of("kills", number)
    delay = rng.uniform(0, 0.4)
    path, _ = products()

    def load() -> str:
        use_cache()
        return "ok" if result(treadle.Session(path)).tobytes() == expected() else "FAULT a wrong result"

    def run() -> str:
        expected()
        if rng.random() < 0.7:
            for file in (home() / "cache").rglob("*"):
                if file.is_file():
                    file.unlink(missing_ok=True)
        victim = Child(load)
        time.sleep(delay)
        victim.kill()
        victim.end()
        return Child(load).outcome()

    return Trial(f"after {delay * 1000:.0f} ms", run)


def checked(
    session: treadle.Session,
    feeds: Mapping[str, Array],
    wanted: Mapping[str, Array],
    *,
    timeout: float | None = None,
) -> str:
    """Returns the outcome of a run that should have the bits `wanted`."""
    return "ok" if same(session.run(feeds, timeout=timeout), wanted) else "FAULT a wrong result"


@contextlib.contextmanager
def clients(count: int, run: Callable[[], str]) -> Iterator[list[str]]:
    """Has threads call `run` again and again. Yields the outcomes that are not `ok`."""
    end, faults = threading.Event(), list[str]()

    def work() -> None:
        while not end.is_set():
            found = outcome(run)
            if found != "ok":
                faults.append(found)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield faults
    finally:
        end.set()
        for thread in threads:
            thread.join()


def forks(number: int) -> Trial:
    """Forks while threads run sessions: the child runs them too, and its parent goes on."""
    rng = rng_of("forks", number)
    model, count = small.branches(), rng.randrange(1, 4)
    feeds = small.inputs_for(model)

    def work() -> str:
        session = treadle.Session(model, intra_op=2, inter_op=2)
        wanted = session.run(feeds)
        with clients(count, lambda: checked(session, feeds, wanted)) as faults:
            for _ in range(3):
                time.sleep(rng.uniform(0, 0.01))
                found = Child(lambda: checked(session, feeds, wanted)).outcome(30)
                if found != "ok":
                    return found if found.startswith("FAULT") else f"FAULT {found}"
        return faults[0] if faults else "ok"

    return Trial(f"{count} clients", lambda: Child(work).outcome())


class _AlarmError(Exception):
    """What the handler of a signal raises."""


def signals(number: int) -> Trial:
    """Signals whose handlers raise, at any moment of loads and runs: what is loaded afterwards is right."""
    rng = rng_of("signals", number)
    model = small.branches()
    feeds = small.inputs_for(model)
    threads = rng.choice((1, 2))

    def handler(*_: Any) -> None:
        raise _AlarmError

    def work() -> str:
        wanted = treadle.Session(model).run(feeds)
        session = treadle.Session(model, intra_op=threads, inter_op=threads)
        signal.signal(signal.SIGALRM, handler)
        for _ in range(20):
            try:
                signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-5, 0.02))
                for _ in range(50):
                    if not same(session.run(feeds), wanted):
                        return "FAULT a wrong result"
                if rng.random() < 0.2:
                    treadle.Session(model).run(feeds)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except _AlarmError:
                pass
        signal.setitimer(signal.ITIMER_REAL, 0)
        return checked(session, feeds, wanted, timeout=30)

    return Trial(f"{threads} threads", lambda: Child(work).outcome())


@cache
def memory_models() -> Mapping[str, tuple[Any, Mapping[str, Array]]]:
    """Returns models of many forms with their inputs.

    None multiplies matrices by NumPy, whose OpenBLAS ends the process where it gets no memory.
    """
    found: dict[str, tuple[Any, Mapping[str, Array]]] = {
        name: (model.SerializeToString(), small.inputs_for(model))
        for name, model in ((name, make()) for name, make in small.MODELS.items())
    }
    chosen = small.data_dependent()
    found["chosen"] = chosen.SerializeToString(), small.inputs_for(chosen, n=300)
    looping, feeds = model_of(loop, COUNTED, 3)
    found["loops"] = looping.SerializeToString(), {**feeds, "n": np.array(5)}
    found["TensorFlow"] = mobile(32).bytes(), {"images": np.ones((1, 32, 32, 3), np.float32)}
    return found


def memory(number: int) -> Trial:
    """Loads and runs in little memory: they end in results or in errors of treadle's."""
    rng = rng_of("memory", number)
    name = rng.choice(sorted(memory_models()))
    megabytes = int(2 ** rng.uniform(0, 9))
    content, feeds = memory_models()[name]

    def work() -> str:
        limit_memory(megabytes << 20)
        session = treadle.Session(content)
        first, second = (session.run(feeds) for _ in range(2))
        return "ok" if same(first, second) else "FAULT two runs differ"

    return Trial(f"{name} in {megabytes} MB", lambda: Child(work).outcome())


def threads(number: int) -> Trial:
    """Runs while no thread can be started for want of memory for its stack."""
    rng = rng_of("threads", number)
    model = small.branches(width=rng.choice((64, 256)))
    feeds = small.inputs_for(model)
    left = rng.choice((1, 2, 4, 8))

    def work() -> str:
        session = treadle.Session(model, pool=treadle.Pool(intra_op=4, inter_op=4))
        wanted = session.run(feeds, intra_op=1, inter_op=1)
        before = resource.getrlimit(resource.RLIMIT_AS)
        limit_memory(32 << 20)
        filled: list[mmap.mmap] = []
        with contextlib.suppress(OSError):
            while True:
                filled.append(mmap.mmap(-1, 1 << 20))
        del filled[-left:]
        found = outcome(lambda: checked(session, feeds, wanted))
        resource.setrlimit(resource.RLIMIT_AS, before)
        filled.clear()
        again = session.run(feeds)
        return found if same(again, wanted) else "FAULT a wrong result afterwards"

    return Trial(f"{left} MB left", lambda: Child(work).outcome())


def quotas(number: int) -> Trial:
    """CPUs and limits that change while sessions run: results stay the same."""
    rng = rng_of("quotas", number)
    model = small.convolutional()
    feeds = small.inputs_for(model, n=3)

    def work() -> str:
        session = treadle.Session(model)
        wanted = session.run(feeds, intra_op=1, inter_op=1)
        every = sorted(os.sched_getaffinity(0))
        with clients(2, lambda: checked(session, feeds, wanted)) as faults:
            for _ in range(20):
                os.sched_setaffinity(0, rng.sample(every, rng.randrange(1, len(every) + 1)))
                if rng.random() < 0.7:
                    treadle.threads.set(intra_op=rng.choice((0, 1, 2, 5)), inter_op=rng.choice((0, 1, 2, 5)))
                else:
                    session.set(intra_op=rng.choice((0, 1, 3)))
                time.sleep(rng.uniform(0, 0.02))
        return faults[0] if faults else "ok"

    return Trial("", lambda: Child(work).outcome())


def graphs(number: int) -> Trial:
    """Random graphs on the native core, with delays around shared state and the audit of slots."""

    def run() -> str:
        command = [str(STRESS), str(GRAPHS), str(number * GRAPHS)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        return "ok" if done.returncode == 0 else f"FAULT {done.returncode}: {done.stderr[-300:]}"

    return Trial(f"{GRAPHS} graphs", run)
