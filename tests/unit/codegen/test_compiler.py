"""Kernels compiled by LLVM while others are generated."""

import threading

import pytest

import treadle
from treadle.codegen import jit
from treadle.codegen import target as targets
from treadle.codegen.compiler import compile_kernels
from treadle.codegen.emit.kernel import Kernel
from treadle.codegen.emit.types import I32
from treadle.codegen.kernels import table
from treadle.dtypes import f32
from treadle.errors import InternalError
from treadle.plan.kernel_spec import KernelSpec
from treadle.plan.kernels.copy_bytes import CopyBytesSpec
from treadle.plan.kernels.reorder import ReorderSpec

_SPECS = [
    CopyBytesSpec(),
    *(ReorderSpec(dtype=f32, block=4, side=4, to_blocked=way) for way in (True, False)),
]


def _compiled(threads_seen: set[str] | None = None) -> list[bytes]:
    """The object code of _SPECS, checked to come in order and in this thread."""
    codes: list[bytes] = []

    def done(number: int, code: bytes) -> None:
        assert number == len(codes)
        assert threading.current_thread() is caller
        codes.append(code)
        if threads_seen is not None:
            threads_seen.update(thread.name for thread in threading.enumerate())

    caller = threading.current_thread()
    compile_kernels(_SPECS, targets.detect(), done)
    return codes


def test_a_second_thread_compiles_the_same_code() -> None:
    """
    The object code is that of kernels compiled alone, whether one or two threads make it, and no thread is left.
    """
    expected = [jit.compile_kernel(spec, targets.detect()) for spec in _SPECS]
    for budget in (1, 2):
        with treadle.threads.limit(intra_op=budget, inter_op=1):
            seen: set[str] = set()
            assert _compiled(seen) == expected
            assert ("treadle-compile" in seen) == (budget > 1)
        assert "treadle-compile" not in {thread.name for thread in threading.enumerate()}


def test_a_system_without_more_threads_compiles_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Where no thread can be started, the caller's compiles alone.
    """

    def refused(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    with treadle.threads.limit(intra_op=2):
        assert len(_compiled()) == len(_SPECS)


@pytest.mark.parametrize("budget", [1, 2])
def test_a_generator_that_fails_is_raised_where_it_was_asked_for(monkeypatch: pytest.MonkeyPatch, budget: int) -> None:
    """
    Invalid IR, and what a generator raises itself, reach the caller; the second thread has ended by then.
    """

    def failing(*_: object) -> None:
        raise InternalError("no such tile")

    def invalid(k: Kernel, _: KernelSpec) -> None:
        k.b.call(k.intrinsic("llvm.fabs.f32", I32), [])

    for broken, said in ((failing, "no such tile"), (invalid, "IR is not valid")):
        monkeypatch.setitem(table.GENERATORS, ReorderSpec, broken)
        with treadle.threads.limit(intra_op=budget), pytest.raises(InternalError, match=said):
            _compiled()
    assert "treadle-compile" not in {thread.name for thread in threading.enumerate()}


def test_kernels_are_compiled_with_an_effort_of_their_family() -> None:
    """
    Families that gain nothing from the optimiser are listed; an unlisted one has all of it.
    """
    assert table.effort_of("elementwise") == "full"
    assert set(table.EFFORTS) <= {spec.family for spec in table.GENERATORS}
    assert {"none", "tidy"} == set(table.EFFORTS.values())
