"""The setting that says where Python functions run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

import numpy as np

from weft import forking
from weft.errors import ThreadSettingError
from weft.runtime import threads
from weft.runtime.python_ops.crew import crew
from weft.runtime.python_ops.memory import Array

EXECUTORS = ("thread", "process")

Function = Callable[[list[Array]], Sequence[Array]]


class _Chosen:
    """The setting of the process, and those of blocks, the innermost last."""

    def __init__(self) -> None:
        self.lock = forking.lock()
        self.base = "thread"
        self.scopes: list[PythonOps] = []

    @property
    def executor(self) -> str:
        scopes = self.scopes
        return scopes[-1].executor if scopes else self.base


_chosen = _Chosen()


class PythonOps:
    """What python_ops() has set; a context manager."""

    def __init__(self, executor: str) -> None:
        self.executor = executor
        with _chosen.lock:
            self._before, _chosen.base = _chosen.base, executor
            self._entered = False
        follow()

    def __enter__(self) -> Self:
        with _chosen.lock:
            if not self._entered:
                _chosen.base = self._before
                self._entered = True
            _chosen.scopes = [*_chosen.scopes, self]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with _chosen.lock:
            last = max(index for index, scope in enumerate(_chosen.scopes) if scope is self)
            _chosen.scopes = [scope for index, scope in enumerate(_chosen.scopes) if index != last]
        follow()

    def __repr__(self) -> str:
        return f"weft.python_ops(executor={self.executor!r})"


def python_ops(executor: str) -> PythonOps:
    """Where Python functions of graphs run from now on, in this whole process: "thread" (the default) or "process".

        weft.python_ops(executor="process")             from here on
        with weft.python_ops(executor="process"): ...   while the block runs; blocks nest

    On "thread" they run on the team's threads, which overlap where a function releases the GIL or blocks (everywhere
    on free-threaded Python). On "process" they run in worker processes: pure Python overlaps too. Arrays go there and
    back through shared memory, functions by cloudpickle at each call; so what a function changes outside of its results
    stays in the worker. There are as many workers as functions in progress, at most inter_op; each has one thread, in
    place of the team's thread that waits for it. They are started when first needed and end when inter_op falls, when
    the setting goes back to "thread", and with this process.

    What is concerned: py_function and numpy_function of weft.compat.tensorflow in graphs, and `call` nodes with the
    attribute `movable`, such as ONNX operators without a kernel. Raises ThreadSettingError for another executor.
    """
    if executor not in EXECUTORS:
        raise ThreadSettingError(f"executor from python_ops(executor=): wanted 'thread' or 'process', got {executor!r}")
    return PythonOps(executor)


def called(function: Function, arrays: list[Array], *, owned: bool = False) -> Sequence[Array]:
    """function(arrays), where the setting says; `owned`: on arrays of its own, that it may keep and change.

    Raises what the function raises; on "process" also WorkerError, and RunTimeoutError or RunCancelledError when the
    run around it ends.
    """
    if _chosen.executor == "process":
        return crew.call(function, arrays)
    return function([np.array(array) for array in arrays] if owned else arrays)


def follow() -> None:
    """Have no more workers than the settings of now allow."""
    crew.limit(threads.get().inter_op if _chosen.executor == "process" else 0)


threads.process.on_change(follow)
