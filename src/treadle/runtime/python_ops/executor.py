"""The setting that says where Python functions run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

import numpy as np

from treadle import forking
from treadle.errors import ThreadSettingError, TreadleError
from treadle.runtime import threads
from treadle.runtime.python_ops.memory import Array
from treadle.runtime.python_ops.process_pool import process_pool

EXECUTORS = ("thread", "process")

Function = Callable[[list[Array]], Sequence[Array]]


class _Setting:
    """The executor of the process, and the `with` blocks that are entered, the innermost last."""

    def __init__(self) -> None:
        self.lock = forking.lock()
        self.base = "thread"
        self.scopes: list[PythonOps] = []

    @property
    def executor(self) -> str:
        """The executor in effect."""
        return next((scope.executor for scope in reversed(self.scopes) if not scope.replaced), self.base)


_setting = _Setting()


class PythonOps:
    """The executor that a call of python_ops() has set; a context manager.

    `replaced` is true if another call has set the executor inside the block.
    """

    def __init__(self, executor: str) -> None:
        self.executor = executor
        self.replaced = False
        with _setting.lock:
            self._before: str | None = _setting.base
            self._around = [scope for scope in _setting.scopes if not scope.replaced]
            self._set(executor, replaced=True)
        limit_processes()

    def _set(self, base: str, *, replaced: bool) -> None:
        _setting.base = base
        for scope in self._around:
            scope.replaced = replaced

    def __enter__(self) -> Self:
        with _setting.lock:
            if self._before is not None:  # the constructor changed the process's setting; it is the block's alone
                self._set(self._before, replaced=False)
                self._before = None
            self.replaced = False
            _setting.scopes = [*_setting.scopes, self]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with _setting.lock:
            last = max((index for index, scope in enumerate(_setting.scopes) if scope is self), default=None)
            if last is None:
                raise TreadleError("treadle.python_ops: this block was not entered")
            _setting.scopes = [scope for index, scope in enumerate(_setting.scopes) if index != last]
        limit_processes()

    def __repr__(self) -> str:
        return f"treadle.python_ops(executor={self.executor!r})"


def python_ops(executor: str) -> PythonOps:
    """Choose where Python functions in graphs run: on the team's threads, or in worker processes.

    The choice holds for the whole process. As a plain call it holds from then on; in a `with` statement it holds while
    the block runs. Blocks nest, and may end in any order.

    On "thread" (the default) functions overlap where they release the GIL or block, and everywhere on free-threaded
    Python. On "process" pure Python overlaps too. Arrays travel through shared memory, functions by cloudpickle at each
    call; a change that a function makes outside of its results stays in the worker process. There are as many worker
    processes as functions in progress, at most inter_op. Each has one thread, which replaces the thread of the team
    that waits for it. They start when they are first needed, and end when inter_op falls, when the executor is "thread"
    again, and with this process.

    The choice concerns py_function and numpy_function of treadle.compat.tensorflow in graphs, and `call` nodes with the
    attribute `movable`, such as ONNX operators without a kernel.

    Args:
        executor: "thread" or "process".

    Returns:
        A context manager for the `with` statement.

    Raises:
        ThreadSettingError: The executor is another one.

    Example:
        >>> treadle.python_ops(executor="process")
        >>> with treadle.python_ops(executor="thread"):
        ...     session.run({"x": x})
    """
    if executor not in EXECUTORS:
        raise ThreadSettingError(f"executor from python_ops(executor=): wanted 'thread' or 'process', got {executor!r}")
    return PythonOps(executor)


def run_function(function: Function, arrays: list[Array], *, owned: bool = False) -> Sequence[Array]:
    """Return function(arrays), run by the executor in force. If `owned`, it gets copies, which it may keep and change.

    Raises what the function raises; on "process" also WorkerError, and RunTimeoutError or RunCancelledError when the
    run around it ends.
    """
    if _setting.executor == "process":
        return process_pool.call(function, arrays)
    return function([np.array(array) for array in arrays] if owned else arrays)


def limit_processes() -> None:
    """End worker processes that the settings no longer allow."""
    process_pool.limit(threads.get().inter_op if _setting.executor == "process" else 0)


threads.process.add_listener(limit_processes)
