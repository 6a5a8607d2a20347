"""Compiles kernels with two threads: the calling thread emits IR while a second one compiles what was emitted before.

LLVM runs without the GIL. More than two threads gain nothing, as llvmlite locks each call of LLVM.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from queue import Empty, SimpleQueue
from threading import Thread

from treadle.codegen.jit import compile_ir, emit_ir
from treadle.codegen.kernels.table import effort_of
from treadle.plan.kernel_spec import KernelSpec
from treadle.plan.target import Target
from treadle.runtime import threads
from treadle.runtime.control import check_compile

OnCompiled = Callable[[int, bytes], None]


def compile_kernels(specs: Sequence[KernelSpec], target: Target, on_compiled: OnCompiled) -> None:
    """Compiles `specs` and calls `on_compiled(number, object code)` for each, in order, in the calling thread.

    Starts a second thread for the duration of the call, if the thread limits of the process allow two and the system
    can start one. Raises InternalError if a generator fails. Ends between two kernels if the run that waits should end.
    """
    second = _start_thread(target) if len(specs) > 1 and _allows_two_threads() else None
    if second is None:
        for number, spec in enumerate(specs):
            check_compile()
            on_compiled(number, compile_ir(emit_ir(spec, target), target, effort_of(spec.family)))
        return
    with closing(second):
        finished = 0
        for spec in specs:
            check_compile()
            second.submit(spec, emit_ir(spec, target))
            while (code := second.next_result(wait=False)) is not None:
                on_compiled(finished, code)
                finished += 1
        for number in range(finished, len(specs)):
            check_compile()
            code = second.next_result(wait=True)
            assert code is not None, "the thread returns one result for each kernel"
            on_compiled(number, code)


def _allows_two_threads() -> bool:
    """True if the thread limits of the process allow more than one thread."""
    settings = threads.get()
    return max(settings.intra_op, settings.inter_op) > 1


def _start_thread(target: Target) -> _CompileThread | None:
    """Starts the second thread; None if the system refuses one."""
    try:
        return _CompileThread(target)
    except RuntimeError:
        return None


class _CompileThread:
    """A thread that compiles IR in the order of submission, until it is closed."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._submitted: SimpleQueue[tuple[KernelSpec, str] | None] = SimpleQueue()
        self._results: SimpleQueue[bytes | BaseException] = SimpleQueue()
        self._closed = False
        self._thread = Thread(target=self._run, name="treadle-compile", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the thread after the kernel in progress; kernels that are still queued are not compiled."""
        self._closed = True
        self._submitted.put(None)
        self._thread.join()

    def submit(self, spec: KernelSpec, text: str) -> None:
        """Queues the IR `text` of `spec`."""
        self._submitted.put((spec, text))

    def next_result(self, *, wait: bool) -> bytes | None:
        """Returns the next object code, or None if it is not ready and `wait` is false. Raises the compile's error."""
        try:
            result = self._results.get(block=wait)
        except Empty:
            return None
        if isinstance(result, BaseException):
            raise result
        return result

    def _run(self) -> None:
        while (job := self._submitted.get()) is not None and not self._closed:
            spec, text = job
            try:
                self._results.put(compile_ir(text, self._target, effort_of(spec.family)))
            except BaseException as error:  # noqa: BLE001 - next_result raises it in the calling thread
                self._results.put(error)
