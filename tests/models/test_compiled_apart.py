"""Large models are compiled by a process of their own."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import treadle
from tests.models import small
from treadle.codegen import apart, cache, host, image, machine
from treadle.compile import Restored
from treadle.errors import ModelError
from treadle.runtime import interpreter

Started = list[tuple[subprocess.Popen[bytes], dict[str, str]]]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of this test's own, which knows what CPU this is; sources count as they are now, for both processes."""
    monkeypatch.setenv("TREADLE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("TREADLE_OUT_OF_PROCESS", raising=False)
    image._sources.cache_clear()
    host.host.cache_clear()
    host.host()
    return tmp_path / "cache"


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    """The processes that were started, each with what was added to its environment."""
    seen: Started = []
    start = interpreter.start

    def counted(program: str, descriptors: Any = (), environment: Any = None, **how: Any) -> Any:
        process = start(program, descriptors, environment, **how)
        seen.append((process, dict(environment or {})))
        return process

    monkeypatch.setattr(interpreter, "start", counted)
    return seen


def large(tmp_path: Path, *, foreign: bool = False) -> tuple[Path, dict[str, np.ndarray]]:
    """A model of more than a mebibyte as a file, and inputs for it; with an op that runs as a Python function if `foreign`."""
    w = small.ModelWriter()
    y = w.op("Relu", w.op("MatMul", "x", w.random(640, 640)))
    outputs = {y: (small.FLOAT, [4, 640])}
    inputs = {"x": (small.FLOAT, [4, 640])}
    if foreign:
        outputs[w.op("Det", "m")] = (small.FLOAT, [])
        inputs["m"] = (small.FLOAT, [3, 3])
    model = w.model(inputs, outputs)
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    return path, small.inputs_for(model)


@pytest.fixture(params=["a file", "bytes"])
def given(request: pytest.FixtureRequest) -> Any:
    """What a session is made of: the path of a model, or its content."""
    return (lambda path: path) if request.param == "a file" else Path.read_bytes


def is_restored(session: treadle.Session) -> bool:
    return isinstance(session._plans.all()[0], Restored)


def test_the_results_are_those_of_a_model_compiled_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: Started, given: Any
) -> None:
    """
    Who compiles changes no bit; a small model is compiled here, and so is every one where the knob says so.
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


def test_bytes_and_a_file_of_them_are_one_model(tmp_path: Path, started: Started) -> None:
    """
    Compiled once for both; the file that the other process read the bytes from has gone.
    """
    path, inputs = large(tmp_path)
    first, second = treadle.Session(path.read_bytes()), treadle.Session(path)

    assert len(started) == 1
    assert is_restored(first)
    assert is_restored(second)
    assert not [each for each in (tmp_path / "cache").iterdir() if each.read_bytes() == path.read_bytes()]
    assert all(np.array_equal(result, second.run(inputs)[name]) for name, result in first.run(inputs).items())


def test_bytes_that_cannot_be_written_are_compiled_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: Started
) -> None:
    """
    A full disk costs memory and no more: no process, and no descriptor left open.
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
    Neither LLVM nor onnx nor a pass is ever in the process that serves the model, not even to ask what CPU this is.
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


def test_what_is_never_kept_is_compiled_apart_once(tmp_path: Path, started: Started, given: Any) -> None:
    """
    The process has compiled such a model in vain. Later sessions, of any process, start none.
    """
    path, inputs = large(tmp_path, foreign=True)
    first, second = treadle.Session(given(path)), treadle.Session(given(path))

    assert len(started) == 1
    assert not is_restored(first)
    assert not is_restored(second)
    assert all(np.isfinite(result).all() for result in second.run(inputs).values())


def test_no_process_is_started_where_nothing_can_be_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: Started
) -> None:
    """
    Without a cache folder, with one too small or only to be read, and where sys.executable is no Python.
    """
    path, _ = large(tmp_path)
    monkeypatch.setenv("TREADLE_CACHE_MB", "3")
    assert not is_restored(treadle.Session(path))
    monkeypatch.delenv("TREADLE_CACHE_MB")
    with monkeypatch.context() as patch:
        patch.setenv("TREADLE_CACHE", "off")
        assert not is_restored(treadle.Session(path))
    with monkeypatch.context() as patch:
        patch.setattr(cache.KernelCache, "may_grow", lambda _: False)
        assert not is_restored(treadle.Session(path, math="exact"))
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", "/usr/sbin/uwsgi")
        assert not is_restored(treadle.Session(path, precision="bf16"))

    assert not started


@pytest.mark.parametrize("fault", ["cannot start", "is killed", "finds no treadle"])
def test_where_the_process_fails_the_model_is_compiled_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str, given: Any
) -> None:
    """
    A system that allows no process, or kills it, costs memory and no more.
    """
    path, inputs = large(tmp_path)
    if fault == "cannot start":
        monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    else:
        text = {"is killed": "import os; os.kill(os.getpid(), 9)", "finds no treadle": "import treadle_of_nowhere"}[
            fault
        ]
        monkeypatch.setattr(apart, "_PROGRAM", text)

    session = treadle.Session(given(path))

    assert not is_restored(session)
    assert session.run(inputs)
    assert is_restored(treadle.Session(given(path)))


def test_what_is_wrong_with_a_model_is_told_as_ever(tmp_path: Path) -> None:
    """
    A model that cannot be compiled is the caller's error, not that of a process nobody knows of.
    """
    path, _ = large(tmp_path)
    path.write_bytes(path.read_bytes()[:-7])

    with pytest.raises(ModelError, match=r"model\.onnx"):
        treadle.Session(path)


def test_progress_is_told_across_processes(tmp_path: Path, started: Started, given: Any) -> None:
    """
    The callback gets the kernels that the other process has compiled; what it raises ends that process.
    """
    path, _ = large(tmp_path)
    told: list[tuple[int, int]] = []

    def refuse(*_: int) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        treadle.Session(given(path), progress=refuse)
    assert started[0][0].returncode == -signal.SIGKILL

    assert is_restored(treadle.Session(given(path), progress=lambda done, total: told.append((done, total))))
    assert told == [(done, told[-1][1]) for done in range(told[-1][1] + 1)]


def test_the_process_has_the_threads_that_this_one_may_use(tmp_path: Path, started: Started) -> None:
    """
    Settings made in the program reach it.
    """
    path, _ = large(tmp_path)
    with treadle.threads.limit(intra_op=1, inter_op=1):
        treadle.Session(path)

    [(_, environment)] = started
    assert (environment["TREADLE_INTRA_OP_THREADS"], environment["TREADLE_INTER_OP_THREADS"]) == ("1", "1")


def test_the_cpu_is_described_alike_by_whoever_asks() -> None:
    """
    LLVM in another process says the same of this machine.
    """
    code = f"import sys; {host._QUESTION}; assert 'numpy' not in sys.modules"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout

    assert host.host() == machine.asked() == machine.parsed(told)
