"""A child process compiles large models."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import treadle
from tests.models import small
from tests.unit.frontends.tensorflow.graphs import Writer
from treadle import compile_settings
from treadle.codegen import artifact, cache, compile_process, host, llvm_host
from treadle.compile import runner_of
from treadle.errors import ModelError, RunTimeoutError
from treadle.plan_store import Restored
from treadle.runtime import interpreter

LENGTH = 5000
"""That few_fit() needs."""

Started = list[tuple[subprocess.Popen[bytes], dict[str, str]]]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of this test's own that holds the CPU's description; both processes see the same sources."""
    monkeypatch.setenv("TREADLE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("TREADLE_OUT_OF_PROCESS", raising=False)
    artifact._source_hash.cache_clear()
    host.host.cache_clear()
    host.host()
    return tmp_path / "cache"


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[Started]:
    """The child processes, each with the variables that were added to its environment."""
    seen: Started = []
    start = interpreter.start

    def counted(program: str, descriptors: Any = (), environment: Any = None, **how: Any) -> Any:
        process = start(program, descriptors, environment, **how)
        seen.append((process, dict(environment or {})))
        return process

    monkeypatch.setattr(interpreter, "start", counted)
    compile_process.end_waiting()
    yield seen
    compile_process.end_waiting()


def large(tmp_path: Path, *, foreign: bool = False) -> tuple[Path, dict[str, np.ndarray]]:
    """A model of more than a mebibyte as a file, and inputs for it. `foreign` adds an op that is a Python function."""
    w = small.ModelWriter()
    y = w.op("Relu", w.op("MatMul", "x", w.random(640, 640)))
    outputs = {y: (small.FLOAT, [4, 640])}
    inputs = {"x": (small.FLOAT, [4, 640])}
    if foreign:
        outputs[w.op("DFT", "m")] = (small.FLOAT, None)
        inputs["m"] = (small.FLOAT, [1, 3, 1])
    model = w.model(inputs, outputs)
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    return path, small.inputs_for(model)


@pytest.fixture(params=["a file", "bytes"])
def given(request: pytest.FixtureRequest) -> Any:
    """Gives the path of a model, or its content, as the argument of a session."""
    return (lambda path: path) if request.param == "a file" else Path.read_bytes


def is_restored(session: treadle.Session) -> bool:
    return isinstance(runner_of(session).plans.all()[0], Restored)


def test_results_equal_those_of_a_model_compiled_in_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: Started, given: Any
) -> None:
    """
    Both give the same bits. Small models, and all models where the knob is off, are compiled in process.
    """
    path, inputs = large(tmp_path)
    session = treadle.Session(given(path))
    assert is_restored(session)
    assert len(started) == 1

    monkeypatch.setenv("TREADLE_OUT_OF_PROCESS", "off")
    monkeypatch.setenv("TREADLE_CACHE", str(tmp_path / "other"))
    here = treadle.Session(given(path))
    assert not is_restored(here)
    wanted, got = here.run(inputs), session.run(inputs)
    assert all(np.array_equal(wanted[name].view(np.uint8), got[name].view(np.uint8)) for name in wanted)

    monkeypatch.delenv("TREADLE_OUT_OF_PROCESS")
    little = tmp_path / "small.onnx"
    onnx.save(small.convolutional(), little)
    treadle.Session(given(little))
    assert len(started) == 1


def test_a_child_may_print(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: Started) -> None:
    """
    What libraries print while they compile is dropped, and the child goes on.
    """
    printing = "print('text', flush=True); print('text', file=sys.stderr, flush=True)"
    monkeypatch.setattr(compile_process, "PROGRAM", f"{printing}; {compile_process.PROGRAM}")
    path, _ = large(tmp_path)

    assert is_restored(treadle.Session(path))
    assert len(started) == 1
    assert compile_process.is_waiting()


@pytest.mark.parametrize("chosen", [{}, {"inputs": ["x:0"], "outputs": ["y"]}], ids=["all", "chosen"])
def test_frozen_graphs_of_tensorflow_are_compiled_by_a_child_too(
    tmp_path: Path, started: Started, chosen: dict[str, list[str]]
) -> None:
    """
    It reads the file with the names that the session was given; bytes are compiled in process.
    """
    write = Writer()
    write.node("MatMul", write.input("x", (None, 640)), write.weights(640, 640), name="y")
    path = tmp_path / "model.pb"
    path.write_bytes(write.graph.SerializeToString())
    x = np.ones((3, 640), np.float32)
    session = treadle.Session(path, **chosen)
    name = session.inputs[0].name

    assert (len(started), session.compiles) == (1, 0)
    here = treadle.Session(path.read_bytes(), outputs=["y"])
    assert (len(started), here.compiles) == (1, 1)
    assert session.run({name: x})["y"].tobytes() == here.run({"x": x})["y"].tobytes()


def test_bytes_and_a_file_of_them_are_one_model(tmp_path: Path, started: Started) -> None:
    """
    They share one artifact, and the file from which the child read the bytes is removed.
    """
    path, inputs = large(tmp_path)
    first, second = treadle.Session(path.read_bytes()), treadle.Session(path)

    assert len(started) == 1
    assert is_restored(first)
    assert is_restored(second)
    assert not [each for each in (tmp_path / "cache").iterdir() if each.read_bytes() == path.read_bytes()]
    assert all(np.array_equal(result, second.run(inputs)[name]) for name, result in first.run(inputs).items())


def test_bytes_that_cannot_be_written_are_compiled_in_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: Started
) -> None:
    """
    On a full disk no child is started and no descriptor stays open.
    """
    path, inputs = large(tmp_path)
    content = path.read_bytes()
    write, opened = os.write, []

    def full(file: int, data: Any) -> int:
        if len(data) < len(content):
            return write(file, data)
        opened.append(file)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    session = treadle.Session(content)

    assert not started
    assert session.run(inputs)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(opened[0])


_SMALL_SCRIPT = """
import sys, numpy, treadle
if {has_llvm}:
    import llvmlite.binding
session = treadle.Session({path!r})
session.run({{"x": numpy.ones((2, 3), numpy.float32)}})
print(session.compiles, *{{"onnx", "treadle.driver"}} & sys.modules.keys())
"""


@pytest.mark.parametrize("has_llvm", [False, True])
def test_small_models_are_compiled_in_a_process_that_has_loaded_llvm(tmp_path: Path, has_llvm: bool) -> None:
    """
    Others have a child for them, too, and then neither passes nor onnx in memory.
    """
    w = small.ModelWriter()
    y = w.op("Relu", "x")
    onnx.save(w.model({"x": (small.FLOAT, [2, 3])}, {y: (small.FLOAT, [2, 3])}), tmp_path / "small.onnx")
    program = _SMALL_SCRIPT.format(has_llvm=has_llvm, path=str(tmp_path / "small.onnx"))
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout

    assert sorted(found.split()) == (["1", "onnx", "treadle.driver"] if has_llvm else ["0"])


def test_runs_start_few_children(tmp_path: Path, started: Started, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A session that compiles for size after size does so itself after some. A child that waits may always be asked.
    """
    path, feeds = tmp_path / "model.onnx", {"x": np.ones((1, 1, LENGTH), np.float32)}
    onnx.save(few_fit(), path)
    monkeypatch.setattr(compile_settings, "MOST_STARTS", 0)
    session = treadle.Session(path)
    compile_process.end_waiting()
    session.run(feeds)
    assert (session.compiles, len(started)) == (1, 1)

    other = treadle.Session(path, math="exact")
    other.run(feeds)
    assert (other.compiles, len(started)) == (1, 2)


_SCRIPT = """
import pathlib, re, sys
import numpy, treadle
session = treadle.Session({model})
session.run({{"x": numpy.ones((4, 640), numpy.float32)}})
print(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
print(*sorted({{"llvmlite.binding", "onnx", "treadle.driver", "treadle.passes.pipeline"}} & sys.modules.keys()))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("model", ["{path!r}", "pathlib.Path({path!r}).read_bytes()"])
def test_the_first_load_needs_no_more_memory_than_a_later_one(tmp_path: Path, folder: Path, model: str) -> None:
    """
    The process that serves the model never loads LLVM, onnx or a pass, not even to detect the CPU.
    """
    for each in folder.iterdir():
        each.unlink()
    path, _ = large(tmp_path)
    command = [sys.executable, "-c", _SCRIPT.format(model=model.format(path=str(path)))]
    first, later = (
        subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\n") for _ in "12"
    )

    assert first[1] == later[1] == ""
    assert int(first[0]) < int(later[0]) + 3000, "KiB; what LLVM takes is 75,000"


def test_a_model_without_artifact_is_compiled_out_of_process_once(tmp_path: Path, started: Started, given: Any) -> None:
    """
    The first compile stores no artifact. Later sessions, of any process, start no child.
    """
    path, inputs = large(tmp_path, foreign=True)
    first, second = treadle.Session(given(path)), treadle.Session(given(path))

    assert len(started) == 1
    assert not is_restored(first)
    assert not is_restored(second)
    assert all(np.isfinite(result).all() for result in second.run(inputs).values())


def test_no_child_is_started_where_no_artifact_can_be_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: Started
) -> None:
    """
    Without a cache folder, with a small or read-only one, and where sys.executable is not Python.
    """
    path, _ = large(tmp_path)
    monkeypatch.setenv("TREADLE_CACHE_MB", "3")
    assert not is_restored(treadle.Session(path))
    monkeypatch.delenv("TREADLE_CACHE_MB")
    with monkeypatch.context() as patch:
        patch.setenv("TREADLE_CACHE", "off")
        assert not is_restored(treadle.Session(path))
    with monkeypatch.context() as patch:
        patch.setattr(cache.KernelCache, "is_writable", lambda _: False)
        assert not is_restored(treadle.Session(path, math="exact"))
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", "/usr/sbin/uwsgi")
        assert not is_restored(treadle.Session(path, precision="bf16"))

    assert not started


@pytest.mark.parametrize("fault", ["cannot start", "is killed", "finds no treadle"])
def test_if_the_child_fails_the_model_is_compiled_in_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str, given: Any
) -> None:
    """
    The session works where the system refuses to start the child, or kills it.
    """
    path, inputs = large(tmp_path)
    if fault == "cannot start":
        monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    else:
        text = {"is killed": "import os; os.kill(os.getpid(), 9)", "finds no treadle": "import treadle_of_nowhere"}[
            fault
        ]
        monkeypatch.setattr(compile_process, "PROGRAM", text)

    session = treadle.Session(given(path))

    assert not is_restored(session)
    assert session.run(inputs)
    assert is_restored(treadle.Session(given(path)))


def test_a_faulty_model_raises_the_same_error(tmp_path: Path) -> None:
    """
    A model that cannot be compiled raises ModelError in the caller, whichever process tried to compile it.
    """
    path, _ = large(tmp_path)
    path.write_bytes(path.read_bytes()[:-7])

    with pytest.raises(ModelError, match=r"model\.onnx"):
        treadle.Session(path)


def test_progress_crosses_processes(tmp_path: Path, started: Started, given: Any) -> None:
    """
    The callback gets the count of kernels that the child has compiled; an exception of the callback ends the child.
    """
    path, _ = large(tmp_path)
    reported: list[tuple[int, int]] = []

    def refuse(*_: int) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        treadle.Session(given(path), progress=refuse)
    assert started[0][0].returncode == -signal.SIGKILL

    assert is_restored(treadle.Session(given(path), progress=lambda done, total: reported.append((done, total))))
    assert reported == [(done, reported[-1][1]) for done in range(reported[-1][1] + 1)]


def test_the_child_has_the_thread_limits_of_the_parent(tmp_path: Path, started: Started) -> None:
    """
    Limits that the program has set reach the child.
    """
    path, _ = large(tmp_path)
    with treadle.threads.limit(intra_op=1, inter_op=1):
        treadle.Session(path)

    [(_, environment)] = started
    assert (environment["TREADLE_INTRA_OP_THREADS"], environment["TREADLE_INTER_OP_THREADS"]) == ("1", "1")


def test_a_child_describes_the_cpu_as_this_process_does() -> None:
    """
    LLVM returns the same description in both processes.
    """
    code = (
        "import sys; from treadle.codegen import compile_server; from treadle.codegen.llvm_host import query_llvm; "
        "query_llvm(); assert 'numpy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)

    assert host.host() == llvm_host.query_llvm() == llvm_host.parse_host(compile_process.ask_description() or "")


def test_a_child_compiles_several_models_and_then_ends(tmp_path: Path, started: Started) -> None:
    """
    The second one needs no process of its own. The process ends by itself, and none stays behind dead.
    """
    path, inputs = large(tmp_path)
    first = treadle.Session(path)
    second = treadle.Session(path, math="exact")

    assert [is_restored(first), is_restored(second)] == [True, True]
    assert len(started) == 1
    assert first.run(inputs)
    [(process, _)] = started
    assert process.wait(timeout=30) == 0
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid, 0)
    assert is_restored(treadle.Session(path, batch_invariant=True))
    assert len(started) == 2


def test_models_loaded_at_once_are_compiled_at_once(tmp_path: Path, started: Started) -> None:
    """
    A thread does not wait for the child of another one.
    """
    path, _ = large(tmp_path)
    together = threading.Barrier(2)

    def load(math: str) -> bool:
        together.wait()
        return is_restored(treadle.Session(path, math=math))

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(load, ("fast", "exact"))) == [True, True]
    assert len(started) == 2


def few_fit() -> onnx.ModelProto:
    """A model whose window fits few lengths, far from all samples: it is compiled for the sizes of its first run."""
    w = small.ModelWriter()
    cut = w.op("Conv", "x", w.random(3, 1, LENGTH), strides=[128])
    y = w.op("MatMul", w.op("Squeeze", cut, w.constant(np.array([2]))), w.random(3, 20000))
    return w.model({"x": (small.FLOAT, [1, 1, "length"])}, {y: (small.FLOAT, None)})


def found_rows() -> onnx.ModelProto:
    """A model with a product behind a size that depends on data."""
    w = small.ModelWriter()
    positions = w.op("Transpose", w.op("NonZero", "m"))
    rows = w.op("GatherND", "x", positions)
    y = w.op("MatMul", rows, w.random(64, 640))
    return w.model({"x": (small.FLOAT, ["n", 64]), "m": (small.FLOAT, ["n"])}, {y: (small.FLOAT, None)})


@pytest.mark.parametrize(
    ("make", "feeds"),
    [
        (few_fit, {"x": np.ones((1, 1, LENGTH), np.float32)}),
        (found_rows, {"x": np.ones((5, 64), np.float32), "m": np.float32([0, 1, 1, 0, 1])}),
    ],
    ids=["sizes of the run", "sizes found in the run"],
)
def test_what_a_first_run_compiles_is_compiled_by_the_child(
    make: Callable[[], onnx.ModelProto],
    feeds: dict[str, np.ndarray],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    started: Started,
    given: Any,
) -> None:
    """
    By the one that has compiled what it could before, or by another one later. Results have the same bits.
    """
    path = tmp_path / "model.onnx"
    onnx.save(make(), path)
    session = treadle.Session(given(path))
    found = session.run(feeds)
    assert (session.compiles, len(started)) == (1, 1)

    monkeypatch.setenv("TREADLE_CACHE", str(tmp_path / "late"))
    late = treadle.Session(given(path))
    started[-1][0].wait(timeout=30)
    again = late.run(feeds)
    assert (late.compiles, len(started)) == (1, 3)

    monkeypatch.setenv("TREADLE_CACHE", str(tmp_path / "other"))
    monkeypatch.setenv("TREADLE_OUT_OF_PROCESS", "off")
    here = treadle.Session(given(path)).run(feeds)
    for name, array in here.items():
        assert array.tobytes() == found[name].tobytes() == again[name].tobytes()


def test_a_run_that_should_end_does_not_wait_for_the_child(tmp_path: Path, started: Started) -> None:
    """
    The child is ended with it; the next run has the plan compiled.
    """
    path = tmp_path / "model.onnx"
    onnx.save(few_fit(), path)
    session = treadle.Session(path)
    feeds = {"x": np.ones((1, 1, LENGTH), np.float32)}
    with pytest.raises(RunTimeoutError):
        session.run(feeds, timeout=0.001)

    assert started[-1][0].wait(timeout=30) == -signal.SIGKILL
    assert session.run(feeds)
