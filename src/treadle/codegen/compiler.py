"""Kernels compiled by two threads: generators write IR here while LLVM compiles what they wrote before.

LLVM runs without the GIL, in one thread at a time: llvmlite has a lock around each call of it.
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

Done = Callable[[int, bytes], None]


def compile_kernels(specs: Sequence[KernelSpec], target: Target, done: Done) -> None:
    """Compile `specs` and tell of each, in order, by `done(number, object code)`, called in this thread.

    A second thread lives as long as this runs, unless the settings of the process leave it one thread, or it can have no
    more. Raises InternalError if a generator fails.
    """
    helper = _start(target) if len(specs) > 1 and _may_have_two() else None
    if helper is None:
        for number, spec in enumerate(specs):
            done(number, compile_ir(emit_ir(spec, target), target, effort_of(spec.family)))
        return
    with closing(helper):
        finished = 0
        for spec in specs:
            helper.give(spec, emit_ir(spec, target))
            while (code := helper.take(wait=False)) is not None:
                done(finished, code)
                finished += 1
        for number in range(finished, len(specs)):
            code = helper.take(wait=True)
            assert code is not None, "one answer a kernel"
            done(number, code)


def _may_have_two() -> bool:
    """Whether the process has set itself more than one thread."""
    settings = threads.get()
    return max(settings.intra_op, settings.inter_op) > 1


def _start(target: Target) -> _Helper | None:
    """A second thread; None where the system gives none."""
    try:
        return _Helper(target)
    except RuntimeError:
        return None


class _Helper:
    """A thread that compiles IR, in the order in which it is given, until it is closed."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._given: SimpleQueue[tuple[KernelSpec, str] | None] = SimpleQueue()
        self._made: SimpleQueue[bytes | BaseException] = SimpleQueue()
        self._left = False
        self._thread = Thread(target=self._run, name="treadle-compile", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread, after what it compiles at the moment."""
        self._left = True
        self._given.put(None)
        self._thread.join()

    def give(self, spec: KernelSpec, text: str) -> None:
        """Have the IR `text` of `spec` compiled."""
        self._given.put((spec, text))

    def take(self, *, wait: bool) -> bytes | None:
        """The next object code; None if it is not ready and `wait` is false. Raises what its compilation raised."""
        try:
            made = self._made.get(block=wait)
        except Empty:
            return None
        if isinstance(made, BaseException):
            raise made
        return made

    def _run(self) -> None:
        while (given := self._given.get()) is not None and not self._left:
            spec, text = given
            try:
                self._made.put(compile_ir(text, self._target, effort_of(spec.family)))
            except BaseException as error:  # noqa: BLE001 - raised by take
                self._made.put(error)
