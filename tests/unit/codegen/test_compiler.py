"""LLVM compiles kernels while others are emitted."""

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
    """Compiles _SPECS and checks that the results arrive in order and on this thread."""
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
    One and two threads produce the object code of single compiles, and no thread is left.
    """
    expected = [jit.compile_kernel(spec, targets.detect()) for spec in _SPECS]
    for budget in (1, 2):
        with treadle.threads.limit(intra_op=budget, inter_op=1):
            seen: set[str] = set()
            assert _compiled(seen) == expected
            assert ("treadle-compile" in seen) == (budget > 1)
        assert "treadle-compile" not in {thread.name for thread in threading.enumerate()}


def test_if_no_thread_can_start_the_caller_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    The system refuses to start a thread.
    """

    def refused(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    with treadle.threads.limit(intra_op=2):
        assert len(_compiled()) == len(_SPECS)


@pytest.mark.parametrize("budget", [1, 2])
def test_an_error_of_a_generator_is_raised_in_the_caller(monkeypatch: pytest.MonkeyPatch, budget: int) -> None:
    """
    Invalid IR and exceptions of generators reach the caller, after the second thread has ended.
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


def test_each_family_has_an_optimisation_effort() -> None:
    """
    Families that gain nothing from the optimiser are listed; all others have the full effort.
    """
    assert table.effort_of("pool_plain") == "full"
    assert set(table.EFFORTS) <= {spec.family for spec in table.GENERATORS}
    assert {"none", "tidy", "loops"} == set(table.EFFORTS.values())
