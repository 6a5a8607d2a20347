"""The setting that says where Python functions run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

import numpy as np

from treadle import forking
from treadle.errors import ThreadSettingError, TreadleError
from treadle.runtime import threads
from treadle.runtime.python_ops.crew import crew
from treadle.runtime.python_ops.memory import Array

EXECUTORS = ("thread", "process")

Function = Callable[[list[Array]], Sequence[Array]]


class _Chosen:
    """The setting of the process, and the blocks that are entered, the innermost last."""

    def __init__(self) -> None:
        self.lock = forking.lock()
        self.base = "thread"
        self.scopes: list[PythonOps] = []

    @property
    def executor(self) -> str:
        """The executor in effect."""
        return next((scope.executor for scope in reversed(self.scopes) if not scope.replaced), self.base)


_chosen = _Chosen()


class PythonOps:
    """What python_ops() has set; a context manager. `replaced` says whether it was set anew inside the block."""

    def __init__(self, executor: str) -> None:
        self.executor = executor
        self.replaced = False
        with _chosen.lock:
            self._before: str | None = _chosen.base
            self._around = [scope for scope in _chosen.scopes if not scope.replaced]
            self._set(executor, replaced=True)
        follow()

    def _set(self, base: str, *, replaced: bool) -> None:
        _chosen.base = base
        for scope in self._around:
            scope.replaced = replaced

    def __enter__(self) -> Self:
        with _chosen.lock:
            if self._before is not None:  # what was set for good when it was made was meant for the block
                self._set(self._before, replaced=False)
                self._before = None
            self.replaced = False
            _chosen.scopes = [*_chosen.scopes, self]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with _chosen.lock:
            last = max((index for index, scope in enumerate(_chosen.scopes) if scope is self), default=None)
            if last is None:
                raise TreadleError("treadle.python_ops: this block was not entered")
            _chosen.scopes = [scope for index, scope in enumerate(_chosen.scopes) if index != last]
        follow()

    def __repr__(self) -> str:
        return f"treadle.python_ops(executor={self.executor!r})"


def python_ops(executor: str) -> PythonOps:
    """Where Python functions of graphs run from now on, in this whole process: "thread" (the default) or "process".

        treadle.python_ops(executor="process")             from here on
        with treadle.python_ops(executor="process"): ...   while the block runs; blocks nest, and end in any order

    On "thread" they run on the team's threads, which overlap where a function releases the GIL or blocks (everywhere
    on free-threaded Python). On "process" they run in worker processes: pure Python overlaps too. Arrays go there and
    back through shared memory, functions by cloudpickle at each call; so what a function changes outside of its results
    stays in the worker. There are as many workers as functions in progress, at most inter_op; each has one thread, in
    place of the team's thread that waits for it. They are started when first needed and end when inter_op falls, when
    the setting goes back to "thread", and with this process.

    What is concerned: py_function and numpy_function of treadle.compat.tensorflow in graphs, and `call` nodes with the
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
